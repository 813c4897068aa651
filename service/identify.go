package service

import (
	"crypto/x509"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
)

// Locked tells whether callers must prove an identity. Where they need not, all may do
// everything, and what proves one is not looked at.
func (s *Service) Locked() bool { return s.backend.Tokens != nil }

// WithToken is the caller as whom a token proves it to be: weir_<id>_<secret>.
func (s *Service) WithToken(c Caller, token string) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Token(token) })
}

// WithPassword is WithToken for protocols with a user and a password, which is the token. The
// user is the identity's name, "" or "default".
func (s *Service) WithPassword(c Caller, user, password string) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Password(user, password) })
}

// WithCertificate is the caller as whom a certificate proves it to be that was verified, by
// its subject alternative names.
func (s *Service) WithCertificate(c Caller, of *x509.Certificate) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Certificate(auth.NamesOf(of)) })
}

// WithName is the caller as an identity that nothing is proved of: for doors of protocols that can't, whose
// operator says whose hits they are.
func (s *Service) WithName(c Caller, name string) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Named(name) })
}

func (s *Service) with(c Caller, by func(*auth.Live) (*auth.Login, error)) (Caller, error) {
	if !s.Locked() {
		return c, nil
	}
	login, err := by(s.backend.Tokens.Live())
	if err != nil {
		s.accounts.Unauthorized()
		return c, &Error{Code: api.CodeUnauthorized, Message: err.Error()}
	}
	return c.As(login), nil
}

// Identify fails where the caller has to prove an identity, and has not, or no longer: its token
// was revoked or has expired. A door says to a caller that is not Known how its protocol proves one.
func (s *Service) Identify(c Caller) error {
	_, err := s.identity(c)
	return err
}

// Scope is a text of what the caller may do now, which changes when that does: what was made for one who may do something else is not for
// it. It fails as Identify does.
func (s *Service) Scope(c Caller) (string, error) {
	is, err := s.identity(c)
	if err != nil || is == nil {
		return "", err
	}
	return is.Scope(), nil
}

// identity is who the caller is now; nil on a server that is not locked.
func (s *Service) identity(c Caller) (*auth.Identity, error) {
	if !s.Locked() {
		return nil, nil
	}
	if !c.Known() {
		s.accounts.Unauthorized()
		return nil, &Error{Code: api.CodeUnauthorized, Message: "this server wants to know who asks"}
	}
	is, err := s.backend.Tokens.Live().Check(c.Login())
	if err != nil {
		s.accounts.Unauthorized()
		return nil, &Error{Code: api.CodeUnauthorized, Message: err.Error()}
	}
	return is, nil
}
