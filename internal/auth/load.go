// Package auth says who may do what: identities with roles, tokens and certificates, from a YAML file:
//
//	identities:
//	  - name: shop
//	    permissions:
//	      - role: ingest
//	        keys: ["shop:"]
//	      - role: decide
//	        keys: ["shop:login:"]
//	        limits: [login]
//	    ceilings:
//	      requests_per_second: 100
//	    tokens:
//	      - id: k3v7q2m5ax
//	        sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	        expires: 2027-01-01T00:00:00Z
//
// A token is weir_<id>_<secret>, and the file has its SHA-256 alone. Parse and Load read a file into a Set. A Live has
// the Set in use, which Watch keeps up to date. Create and Revoke edit the file.
//
// Invariants. A Set does not change. Who has no identity may do nothing. Secrets are compared in constant time. A Login
// says which token or certificate proved an identity, and Live.Check tells at any later time whether it still does. So
// a token that was revoked, and a certificate that expired, are refused on open connections too. The file has bounds:
// MaxFileBytes, MaxIdentities, MaxTokens, MaxPrefixes, MaxLimits, MaxCertificates.
package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
	"go.yaml.in/yaml/v4"
)

// MaxFileBytes is the largest file.
const MaxFileBytes = 1 << 20

// Load reads the file at path.
func Load(path string) (*Set, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// readFile reads a regular file that not everybody may write.
func readFile(path string) ([]byte, error) {
	data, err := filewatch.Read(path, "tokens", MaxFileBytes)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("%s: everybody on this machine may write it, and so give themselves any role: chmod 600 %s", path, path)
	}
	return data, nil
}

func tooLarge(path string) error {
	return fmt.Errorf("%s: larger than %s: that is no file of tokens", path, units.FormatSize(MaxFileBytes))
}

// The bounds of a file.
const (
	MaxIdentities   = 1000
	MaxTokens       = 2         // of an identity: the one in use, and the one that takes its place
	MaxPrefixes     = 16        // of a permission
	MaxLimits       = 64        // of a permission
	MaxCertificates = 16        // of an identity
	maxCeiling      = 1_000_000 // the most that package limit has for a second
	maxPrefixBytes  = 512
	maxSANBytes     = 256
	maxNameBytes    = 64
)

// Parse reads a file; path is its name for the messages. An error says all that is wrong, a line for each identity.
func Parse(path string, data []byte) (*Set, error) {
	if len(data) > MaxFileBytes {
		return nil, tooLarge(path)
	}
	var read file
	if err := yaml.Load(data, &read, yaml.WithKnownFields()); err != nil {
		return nil, notRead(path, err)
	}
	if n := len(read.Identities); n > MaxIdentities {
		return nil, fmt.Errorf("%s: %d identities: at most %d", path, n, MaxIdentities)
	}
	s := &Set{tokens: map[string]*Login{}, names: map[string]*Identity{}, ofIdentity: map[string][]*Login{}, named: map[string]*Login{}, content: filewatch.HashOf(data)}
	var faults []error
	for at := range read.Identities {
		if err := s.add(&read.Identities[at]); err != nil {
			faults = append(faults, fmt.Errorf("%s: identity %d (%s): %w", path, at+1, clip(read.Identities[at].Name), err))
		}
	}
	return s, errors.Join(faults...)
}

func (s *Set) add(from *fileIdentity) error {
	if !IsName(from.Name) {
		return fmt.Errorf("name: write 1 to %d letters, digits or any of ._/-", maxNameBytes)
	}
	if slices.ContainsFunc(s.identities, func(i *Identity) bool { return i.Name == from.Name }) {
		return errors.New("name: it stands twice")
	}
	made := &Identity{Name: from.Name}
	for i := range from.Permissions {
		permission, err := newPermission(&from.Permissions[i])
		switch {
		case err != nil:
			return err
		case made.permissions[permission.Role] != nil:
			return fmt.Errorf("permissions: role %s stands twice: list all its keys in one permission", permission.Role)
		}
		made.permissions[permission.Role] = permission
	}
	if len(from.Permissions) == 0 {
		return fmt.Errorf("permissions: it has no role: write for example `- role: read`; there are %s", strings.Join(roleNames[:], ", "))
	}
	if err := made.Ceilings.set(&from.Ceilings); err != nil {
		return err
	}
	if err := s.addCertificates(made, from.Certificates); err != nil {
		return err
	}
	if err := s.addTokens(made, from.Tokens); err != nil {
		return err
	}
	s.identities = append(s.identities, made)
	s.named[from.Name] = &Login{Identity: made, set: s, named: true}
	return nil
}

func (c *Ceilings) set(from *fileCeilings) error {
	for _, one := range []struct {
		name     string
		from, to *uint64
	}{
		{"requests_per_second", from.Requests, &c.Requests},
		{"hits_per_second", from.Hits, &c.Hits},
		{"new_keys_per_minute", from.NewKeys, &c.NewKeys},
	} {
		if one.from == nil {
			continue
		}
		if *one.to = *one.from; *one.to < 1 || *one.to > maxCeiling {
			return fmt.Errorf("ceilings: %s: write 1 to %d, or leave it out for no bound", one.name, maxCeiling)
		}
	}
	return nil
}

func (s *Set) addTokens(identity *Identity, tokens []fileToken) error {
	if len(tokens) > MaxTokens {
		return fmt.Errorf("tokens: %d: at most %d, one in use and one to take its place; remove the oldest (weir token revoke)", len(tokens), MaxTokens)
	}
	for _, from := range tokens {
		made := Token{ID: from.ID, Created: from.Created, Expires: from.Expires}
		digest, err := hex.DecodeString(from.SHA256)
		switch {
		case !isID(from.ID):
			return fmt.Errorf("tokens: id %s: it is the middle part of weir_<id>_<secret>, of small letters and digits", clip(from.ID))
		case s.tokens[from.ID] != nil:
			return fmt.Errorf("tokens: id %s stands twice", from.ID)
		case err != nil || copy(made.sum[:], digest) != sha256.Size || len(digest) != sha256.Size:
			return fmt.Errorf("tokens: sha256 of %s: write the SHA-256 of the whole token, 64 hexadecimal digits", from.ID)
		}
		login := &Login{Identity: identity, set: s, token: made}
		s.tokens[from.ID] = login
		s.ofIdentity[identity.Name] = append(s.ofIdentity[identity.Name], login)
	}
	return nil
}

func (s *Set) addCertificates(identity *Identity, sans []string) error {
	if len(sans) > MaxCertificates {
		return fmt.Errorf("certificates: %d: at most %d", len(sans), MaxCertificates)
	}
	for _, san := range sans {
		kind, value, ok := strings.Cut(san, ":")
		switch {
		case !ok || value == "" || len(san) > maxSANBytes || !slices.Contains([]string{"dns", "uri", "email", "ip"}, kind):
			return fmt.Errorf("certificates: %s: write dns:NAME, uri:URI, email:ADDRESS or ip:ADDRESS, a subject alternative name", clip(san))
		case s.names[san] != nil:
			return fmt.Errorf("certificates: %s stands twice", clip(san))
		}
		s.names[san] = identity
	}
	return nil
}

func newPermission(from *filePermission) (*Permission, error) {
	role, ok := ParseRole(from.Role)
	if !ok {
		return nil, fmt.Errorf("permissions: role %q%s; there are %s", clip(from.Role), units.DidYouMean(from.Role, roleNames[:]), strings.Join(roleNames[:], ", "))
	}
	g := &Permission{Role: role}
	var err error
	if g.Keys, err = words(&from.Keys, "keys", MaxPrefixes); err != nil {
		return nil, err
	}
	if g.Limits, err = words(&from.Limits, "limits", MaxLimits); err != nil {
		return nil, err
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	g.Keys = disjoint(g.Keys)
	return g, nil
}

// check refuses prefixes and names that no key or limit would have.
func (g *Permission) check() error {
	for _, prefix := range g.Keys {
		switch {
		case prefix == "*":
			return errors.New("keys: \"*\": leave out `keys` for all keys")
		case strings.HasSuffix(prefix, "*"):
			return fmt.Errorf("keys: %q: these are prefixes, write them without the *", clip(prefix))
		case prefix == "" || len(prefix) > maxPrefixBytes || !utf8.ValidString(prefix):
			return fmt.Errorf("keys: %q: a prefix has 1 to %d bytes of UTF-8", clip(prefix), maxPrefixBytes)
		}
	}
	for _, name := range g.Limits {
		if !IsName(name) {
			return fmt.Errorf("limits: %q: write the names of policies", clip(name))
		}
	}
	if len(g.Limits) > 0 && g.Role == Ingest {
		return errors.New("limits: role ingest has none: leave them out")
	}
	return nil
}

// words reads a list of texts, nil if it is not there.
func words(n *yaml.Node, field string, most int) (list []string, err error) {
	if n.IsZero() {
		return nil, nil
	}
	if err := n.Load(&list); err != nil || len(list) == 0 || n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s: write a list such as [\"shop:\"], or leave `%s` out for all", field, field)
	}
	if len(list) > most {
		return nil, fmt.Errorf("%s: %d: at most %d in a permission", field, len(list), most)
	}
	return list, nil
}

// IsName reports whether an identity may have a name: 1 to 64 letters, digits or any of ._/-.
func IsName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') && strings.IndexByte("._/-", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxNameBytes
}

// clip keeps an echo of the file short.
func clip(s string) string { return units.Clip(s, 60) }

// file is the file as YAML has it. Lists whose absence means "all" are nodes, so that an empty one is not taken for it.
type file struct {
	Identities []fileIdentity `yaml:"identities"`
}

type fileIdentity struct {
	Name         string           `yaml:"name"`
	Permissions  []filePermission `yaml:"permissions"`
	Ceilings     fileCeilings     `yaml:"ceilings,omitempty"`
	Certificates []string         `yaml:"certificates,omitempty"`
	Tokens       []fileToken      `yaml:"tokens"`
}

type filePermission struct {
	Role   string    `yaml:"role"`
	Keys   yaml.Node `yaml:"keys,omitempty"`
	Limits yaml.Node `yaml:"limits,omitempty"`
}

type fileCeilings struct {
	Requests *uint64 `yaml:"requests_per_second,omitempty"`
	Hits     *uint64 `yaml:"hits_per_second,omitempty"`
	NewKeys  *uint64 `yaml:"new_keys_per_minute,omitempty"`
}

type fileToken struct {
	ID      string    `yaml:"id"`
	SHA256  string    `yaml:"sha256"`
	Created time.Time `yaml:"created,omitempty"`
	Expires time.Time `yaml:"expires,omitempty"`
}

// fields are all that a file may have.
var fields = strings.Fields("identities name permissions role keys limits ceilings requests_per_second hits_per_second new_keys_per_minute certificates tokens id sha256 created expires")

var (
	unknownField = regexp.MustCompile(`^field (.+) not found in type `)
	wrongKind    = regexp.MustCompile("^cannot construct ")
)

// notRead says by line, and in words that are not of Go, what the YAML reader did not take.
func notRead(path string, err error) error {
	var list []*yaml.LoadError
	if all, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		list = all.Errors
	} else if one, ok := errors.AsType[*yaml.LoadError](err); ok {
		list = append(list, one)
	} else {
		return fmt.Errorf("%s: not a YAML file of identities: %w", path, err)
	}
	const most = 20
	var faults []error
	for i, at := range list {
		if i == most {
			faults = append(faults, fmt.Errorf("%s: and %d more faults", path, len(list)-most))
			break
		}
		faults = append(faults, fmt.Errorf("%s:%d: %s", path, max(at.Mark.Line, 1), plain(at.Message)))
	}
	return errors.Join(faults...)
}

// plain is a message of the YAML reader in the words that the file's author knows.
func plain(message string) string {
	if match := unknownField.FindStringSubmatch(message); match != nil {
		name := clip(match[1])
		return fmt.Sprintf("%s: unknown field here%s; there are %s", name, units.DidYouMean(name, fields), strings.Join(fields, ", "))
	}
	switch {
	case wrongKind.MatchString(message):
		return "this value is of another kind than belongs here, which is text, a number, a list or fields: docs/security.md has an example of the file"
	case strings.Contains(message, "no documents"):
		return "nobody is in it: 'weir token create NAME --role ROLE' makes an identity"
	case strings.Contains(message, "already defined"):
		return message + ": remove one"
	}
	return "not YAML: " + message + "; look for a wrong indent, a tab, a missing colon, or * { } without quotes near this line"
}
