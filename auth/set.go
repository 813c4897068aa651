package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/weir-counter/weir/internal/filewatch"
)

// The errors for a caller that proves no identity. They are the same for an id that is not known and
// for a wrong secret.
var (
	ErrUnknown = errors.New("the token, password or certificate is not known")
	ErrNoName  = errors.New("the tokens file has no identity of this name")
	ErrExpired = errors.New("the token has expired: ask for a new one (weir token create)")
)

// Set is the identities of one file. It does not change.
type Set struct {
	identities []*Identity
	tokens     map[string]*Login   // by id
	names      map[string]*Login   // by SAN of a certificate
	ofIdentity map[string][]*Login // tokens, by name, as in the file
	named      map[string]*Login   // that prove nothing, by name
	content    filewatch.Hash      // of the file
}

// Login is the proof of an identity: a token or a certificate of a Set, or none (Live.Named). It does not change.
type Login struct {
	Identity *Identity

	set   *Set
	token Token
	san   string // of a certificate; "": a token
	named bool   // neither: its word is taken
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

// bySANs finds whose a certificate is. One with names of several identities is nobody's.
func (s *Set) bySANs(sans []string) (*Login, error) {
	var found *Login
	for _, san := range sans {
		login := s.names[san]
		if login == nil {
			continue
		}
		if found != nil && found.Identity != login.Identity {
			return nil, ErrUnknown
		}
		found = login
	}
	if found == nil {
		return nil, ErrUnknown
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

// same finds in s what a login of another Set was proved by.
func (s *Set) same(login *Login) (*Login, error) {
	if login.named {
		return s.byName(login.Identity.Name)
	}
	if login.san != "" {
		return s.bySANs([]string{login.san})
	}
	now := s.tokens[login.token.ID]
	if now == nil || subtle.ConstantTimeCompare(now.token.sum[:], login.token.sum[:]) != 1 {
		return nil, ErrUnknown
	}
	return now, nil
}

// Identities lists all, in the order of the file. The list and what is in it are not to be
// changed.
func (s *Set) Identities() []*Identity { return s.identities }

// Tokens lists those of an identity, in the order of the file.
func (s *Set) Tokens(name string) []Token {
	logins := s.ofIdentity[name]
	list := make([]Token, len(logins))
	for i, l := range logins {
		list[i] = l.token
	}
	return list
}
