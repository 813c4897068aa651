package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/filewatch"
)

// The errors for a caller that proves no identity. They are the same for an id that is not known and
// for a wrong secret.
var (
	ErrUnknown = errors.New("the token, password or certificate is not known")
	ErrNoName  = errors.New("the tokens file has no identity of this name")
	ErrExpired = errors.New("the token or certificate has expired: ask for a new one (weir token create makes tokens)")
)

// Everybody reports whether the login is of NewPublic.
func (l *Login) Everybody() bool { return l.everybody }

// Set is the identities of one file. It does not change.
type Set struct {
	identities []*Identity
	tokens     map[string]*Login    // by id
	names      map[string]*Identity // by SAN of a certificate
	ofIdentity map[string][]*Login  // tokens, by name, as in the file
	named      map[string]*Login    // that prove nothing, by name
	content    filewatch.Hash       // of the file
}

// Login is the proof of an identity: a token or a certificate of a Set, or none (Live.Named). It does not change.
type Login struct {
	Identity *Identity

	set         *Set
	token       Token
	certificate Certificate // Names empty: a token
	named       bool        // neither: its word is taken
	everybody   bool        // as NewPublic says
}

// NewPublic returns a login that needs no proof, whatever file is in use: everybody may read all keys with a prefix.
func NewPublic(name, prefix string, c Ceilings) *Login {
	is := &Identity{Name: name, Ceilings: c}
	is.permissions[Read] = &Permission{Role: Read, Keys: []string{prefix}}
	return &Login{Identity: is, everybody: true}
}

// nobody is what a secret is compared with where there is no such id.
var nobody = &Login{token: Token{sum: sha256.Sum256([]byte("nobody"))}}

// byToken finds whose a token is.
func (s *Set) byToken(text string, now time.Time) (*Login, error) {
	id, ok := idOf(text)
	if !ok {
		return nil, ErrUnknown
	}
	login := s.tokens[id]
	if login == nil {
		login = nobody
	}
	var buffer [maxTokenLen]byte // in place of a copy on the heap
	given := sha256.Sum256(append(buffer[:0], text...))
	same := subtle.ConstantTimeCompare(given[:], login.token.sum[:]) == 1
	switch {
	case !same || login == nobody:
		return nil, ErrUnknown
	case login.token.Expired(now):
		return nil, ErrExpired
	}
	return login, nil
}

// byCertificate finds whose a certificate is. One with names of several identities is nobody's.
func (s *Set) byCertificate(c Certificate, now time.Time) (*Identity, error) {
	var found *Identity
	for _, name := range c.Names {
		is := s.names[name]
		if is == nil {
			continue
		}
		if found != nil && found != is {
			return nil, ErrUnknown
		}
		found = is
	}
	switch {
	case found == nil:
		return nil, ErrUnknown
	case !now.Before(c.Ends):
		return nil, ErrExpired
	}
	return found, nil
}

// byName finds an identity.
func (s *Set) byName(name string) (*Login, error) {
	if login := s.named[name]; login != nil {
		return login, nil
	}
	return nil, ErrNoName
}

// same finds in s what a login of another Set was proved by. It does not look at certificates.
func (s *Set) same(login *Login) (*Login, error) {
	if login.named {
		return s.byName(login.Identity.Name)
	}
	now := s.tokens[login.token.ID]
	if now == nil || subtle.ConstantTimeCompare(now.token.sum[:], login.token.sum[:]) != 1 {
		return nil, ErrUnknown
	}
	return now, nil
}

// Identities lists all, in the order of the file. The list and what is in it are not to be changed.
func (s *Set) Identities() []*Identity { return s.identities }

// Tokens lists the tokens of an identity, in the order of the file.
func (s *Set) Tokens(name string) []Token {
	logins := s.ofIdentity[name]
	list := make([]Token, len(logins))
	for i, l := range logins {
		list[i] = l.token
	}
	return list
}

// Identity is who calls. It does not change.
type Identity struct {
	Name     string
	Ceilings Ceilings

	permissions [roles]*Permission
}

// Ceilings bound what an identity may use of one node. 0 is no bound.
type Ceilings struct {
	Requests uint64 // a second
	Hits     uint64 // a second
	NewKeys  uint64 // a minute
}

// Permission is for which keys and limits an identity has a role. It does not change.
type Permission struct {
	Role   Role
	Keys   []string // prefixes, sorted, none of them within another; empty: all keys
	Limits []string // names, sorted; empty: all limits
}

// Everything is a permission without bounds.
var Everything = &Permission{}

// Permission is what the identity may do in a role; nil: nothing. A nil Identity has none.
func (i *Identity) Permission(r Role) *Permission {
	if i == nil || r >= roles {
		return nil
	}
	return i.permissions[r]
}

// Scope is a text of what the identity may do. Two that may do the same have the same text.
func (i *Identity) Scope() string {
	var b strings.Builder
	for role, g := range i.permissions {
		if g != nil {
			fmt.Fprintf(&b, "%v %q %q;", Role(role), g.Keys, g.Limits)
		}
	}
	return b.String()
}

// May reports whether the identity has a role for a key.
func (i *Identity) May(r Role, key string) bool { return i.Permission(r).Key(key) }

// AllKeys reports whether the permission is for every key.
func (g *Permission) AllKeys() bool { return g != nil && len(g.Keys) == 0 }

// AllLimits reports whether the permission is for every limit.
func (g *Permission) AllLimits() bool { return g != nil && len(g.Limits) == 0 }

// All reports whether the permission is for every key and limit.
func (g *Permission) All() bool { return g.AllKeys() && g.AllLimits() }

// Key reports whether the permission is for a key, or for all keys that begin with it.
func (g *Permission) Key(key string) bool {
	if g == nil {
		return false
	}
	for _, prefix := range g.Keys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return len(g.Keys) == 0
}

// Limit reports whether the permission is for a limit.
func (g *Permission) Limit(name string) bool {
	return g != nil && (len(g.Limits) == 0 || slices.Contains(g.Limits, name))
}

// Within is the part of all keys with a prefix that the permission is for: prefixes, sorted, none
// of them within another. Empty: no key.
func (g *Permission) Within(prefix string) []string {
	if g.Key(prefix) {
		return []string{prefix}
	}
	if g == nil {
		return nil
	}
	var parts []string
	for _, permitted := range g.Keys {
		if strings.HasPrefix(permitted, prefix) {
			parts = append(parts, permitted)
		}
	}
	return parts
}

// disjoint sorts prefixes and drops those that lie within another.
func disjoint(prefixes []string) []string {
	sorted := slices.Sorted(slices.Values(prefixes))
	kept := sorted[:0]
	for _, prefix := range sorted {
		if len(kept) == 0 || !strings.HasPrefix(prefix, kept[len(kept)-1]) {
			kept = append(kept, prefix)
		}
	}
	return kept
}

// Role is a kind of what may be done.
type Role uint8

// The roles.
const (
	Ingest Role = iota // count hits
	Decide             // ask limits whether a request may pass
	Read               // ask questions: counts, series, top, keys, limits; with all keys also figures of the server
	Admin              // delete, reset, backup and restore, cluster, policies
	roles
)

// roleNames are the words of the file, in the order of the constants.
var roleNames = [roles]string{"ingest", "decide", "read", "admin"}

// String is the word of the file.
func (r Role) String() string {
	if r < roles {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// RoleNames are the words of all roles.
func RoleNames() []string { return roleNames[:] }

// ParseRole reads the word of a role.
func ParseRole(word string) (Role, bool) {
	at := slices.Index(roleNames[:], word)
	return Role(max(at, 0)), at >= 0
}

const (
	tokenMark   = "weir_" // so that scanners of leaked secrets know one
	idBytes     = 10      // letters of an id: 50 random bits
	maxTokenLen = 256     // longer texts are no tokens, and cost no hash
)

// sum is the SHA-256 of a token.
type sum = [sha256.Size]byte

type Token struct {
	ID      string
	Created time.Time // zero: not said
	Expires time.Time // zero: never
	sum     sum
}

// Expired reports whether a token is no longer good.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// newToken makes a token. Nothing stores text; t is what the file has of it.
func newToken(now, expires time.Time) (text string, t Token) {
	id := strings.ToLower(rand.Text()[:idBytes])
	text = tokenMark + id + "_" + strings.ToLower(rand.Text()+rand.Text())
	return text, Token{ID: id, Created: now.UTC().Truncate(time.Second), Expires: expires, sum: sha256.Sum256([]byte(text))}
}

// idOf is the id in the text of a token.
func idOf(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, tokenMark)
	if !ok || len(text) > maxTokenLen {
		return "", false
	}
	id, secret, ok := strings.Cut(rest, "_")
	return id, ok && isID(id) && secret != ""
}

func isID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z') && !('0' <= c && c <= '9') {
			return false
		}
	}
	return id != "" && len(id) <= 32
}

// Watch keeps in use what the file at path has until ctx ends, as filewatch.File does. It looks once a second, and at
// once for each value from reload, which may be nil. It calls report with nil when the file's identities are in use
// after a change or a reload. Else report gets what is wrong with the file, while the earlier identities stay in use.
func (l *Live) Watch(ctx context.Context, path string, reload <-chan struct{}, report func(error)) {
	file := filewatch.File{
		Path: path, What: "tokens", Gone: "put it back, and revoke tokens with 'weir token revoke'",
		Read: readFile, InUse: func() filewatch.Hash { return l.Set().content }, Take: l.use, Report: report,
	}
	file.Watch(ctx, reload)
}

func (l *Live) use(path string, data []byte) error {
	set, err := Parse(path, data)
	if err == nil {
		l.Use(set)
	}
	return err
}

// Live is the Set in use. Create it with NewLive; it is safe for many goroutines.
type Live struct{ set atomic.Pointer[Set] }

// NewLive puts s to use.
func NewLive(s *Set) *Live {
	l := new(Live)
	l.set.Store(s)
	return l
}

// Use puts another Set to use, from now on.
func (l *Live) Use(s *Set) { l.set.Store(s) }

// Set is the one in use, never nil.
func (l *Live) Set() *Set { return l.set.Load() }

// Token says whose a token is, or fails with ErrUnknown or ErrExpired. It costs a SHA-256, and allocates nothing.
func (l *Live) Token(text string) (*Login, error) { return l.Set().byToken(text, time.Now()) }

// Password is Token for protocols with a user and a password, which is the token. The user is the
// identity's name, "" or "default".
func (l *Live) Password(user, password string) (*Login, error) {
	login, err := l.Token(password)
	if err == nil && user != "" && user != "default" && user != login.Identity.Name {
		return nil, ErrUnknown
	}
	return login, err
}

// Certificate returns the login of a client's verified certificate, or ErrUnknown or ErrExpired.
func (l *Live) Certificate(c Certificate) (*Login, error) {
	set := l.Set()
	is, err := set.byCertificate(c, time.Now())
	if err != nil {
		return nil, err
	}
	return &Login{Identity: is, set: set, certificate: c}, nil
}

// Named is the login of an identity that proves nothing: for those whose word is taken. Or it fails with ErrNoName.
func (l *Live) Named(name string) (*Login, error) { return l.Set().byName(name) }

// Check returns the identity that a login proves now: by the file in use, at this time. It fails with ErrUnknown or
// ErrExpired. A login whose token or certificate belongs to another identity now is unknown: what its caller began
// stands under the name before. While the file stays as it is, Check costs a few nanoseconds.
func (l *Live) Check(login *Login) (*Identity, error) {
	set, is := l.Set(), login.Identity
	switch {
	case login.everybody:
	case len(login.certificate.Names) > 0:
		now := time.Now()
		if login.set == set && now.Before(login.certificate.Ends) {
			break
		}
		var err error
		if is, err = set.byCertificate(login.certificate, now); err != nil {
			return nil, err
		}
	default:
		current := login
		if login.set != set {
			var err error
			if current, err = set.same(login); err != nil {
				return nil, err
			}
		}
		if !current.token.Expires.IsZero() && current.token.Expired(time.Now()) {
			return nil, ErrExpired
		}
		is = current.Identity
	}
	if is.Name != login.Identity.Name {
		return nil, ErrUnknown
	}
	return is, nil
}
