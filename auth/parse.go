package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/nearest"
	"github.com/weir-counter/weir/internal/units"
)

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

// Parse reads a file; path is its name for the messages. An error says all that is wrong, a line
// for each identity.
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
	s := &Set{tokens: map[string]*Login{}, names: map[string]*Login{}, ofIdentity: map[string][]*Login{}, named: map[string]*Login{}, content: filewatch.HashOf(data)}
	var faults []error
	for at := range read.Identities {
		if err := s.add(&read.Identities[at]); err != nil {
			faults = append(faults, fmt.Errorf("%s: identity %d (%s): %w", path, at+1, clip(read.Identities[at].Name), err))
		}
	}
	return s, errors.Join(faults...)
}

// add adds one identity.
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

func (s *Set) addTokens(of *Identity, tokens []fileToken) error {
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
		login := &Login{Identity: of, set: s, token: made}
		s.tokens[from.ID] = login
		s.ofIdentity[of.Name] = append(s.ofIdentity[of.Name], login)
	}
	return nil
}

func (s *Set) addCertificates(of *Identity, sans []string) error {
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
		s.names[san] = &Login{Identity: of, set: s, san: san}
	}
	return nil
}

func newPermission(from *filePermission) (*Permission, error) {
	role, ok := ParseRole(from.Role)
	if !ok {
		return nil, fmt.Errorf("permissions: role %q%s; there are %s", clip(from.Role), nearest.DidYouMean(from.Role, roleNames[:]), strings.Join(roleNames[:], ", "))
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

// IsName tells whether an identity may have a name: 1 to 64 letters, digits or any of ._/-.
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
