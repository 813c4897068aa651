package auth

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/filewatch"
)

// Watch keeps in use what the file at path has until ctx ends, as filewatch.File does. It looks once a
// second, and at once for each value from reload, which may be nil. It calls report
// with nil when the file's identities are in use after a change or a reload. Else report gets what is wrong
// with the file, while the earlier identities stay in use.
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

// Token says whose a token is, or fails with ErrUnknown or ErrExpired. It costs a SHA-256, and
// allocates nothing.
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

// Named is the login of an identity that proves nothing: for those whose word is taken. Or it fails with
// ErrNoName.
func (l *Live) Named(name string) (*Login, error) { return l.Set().byName(name) }

// Check returns the identity that a login proves now: by the file in use, at this time. It fails with ErrUnknown or
// ErrExpired. A login whose token or certificate belongs to another identity now is unknown: what its caller began
// stands under the name before. While the file stays as it is, Check costs a few nanoseconds.
func (l *Live) Check(login *Login) (*Identity, error) {
	set, is := l.Set(), login.Identity
	switch {
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
