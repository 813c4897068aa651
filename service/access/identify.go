package access

import (
	"crypto/x509"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/accounts"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/files"
)

// Service tells doors who their clients are, and what those may do.
type Service struct{ gate *Gate }

// New is the doors' side of a Gate.
func New(gate *Gate) *Service { return &Service{gate} }

// Locked tells whether callers must prove an identity. Where they need not, all may do
// everything, and what proves one is not looked at.
func (s *Service) Locked() bool { return s.gate.tokens != nil }

// WithToken is the caller as whom a token proves it to be: weir_<id>_<secret>.
func (s *Service) WithToken(c caller.Caller, token string) (caller.Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Token(token) })
}

// WithPassword is WithToken for protocols with a user and a password, which is the token. The
// user is the identity's name, "" or "default".
func (s *Service) WithPassword(c caller.Caller, user, password string) (caller.Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Password(user, password) })
}

// WithCertificate is the caller as whom a certificate proves it to be that was verified, by
// its subject alternative names.
func (s *Service) WithCertificate(c caller.Caller, of *x509.Certificate) (caller.Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Certificate(auth.NamesOf(of)) })
}

// WithName is the caller as an identity that nothing is proved of: for doors of protocols that can't, whose
// operator says whose hits they are.
func (s *Service) WithName(c caller.Caller, name string) (caller.Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Named(name) })
}

func (s *Service) with(c caller.Caller, by func(*auth.Live) (*auth.Login, error)) (caller.Caller, error) {
	if !s.Locked() {
		return c, nil
	}
	login, err := by(s.gate.tokens.Live())
	if err != nil {
		s.gate.accounts.Unauthorized()
		return c, &failure.Error{Code: api.CodeUnauthorized, Message: err.Error()}
	}
	return c.As(login), nil
}

// Identify fails where the caller has to prove an identity, and has not, or no longer: its token
// was revoked or has expired. A door says to a caller that is not Known how its protocol proves one.
func (s *Service) Identify(c caller.Caller) error {
	_, err := s.gate.Identity(c)
	return err
}

// Scope is a text of what the caller may do now, which changes when that does: what was made for one who may do something else is not for
// it. It fails as Identify does.
func (s *Service) Scope(c caller.Caller) (string, error) {
	is, err := s.gate.Identity(c)
	if err != nil || is == nil {
		return "", err
	}
	return is.Scope(), nil
}

// Accounts are the figures of all identities, by name, for metrics, with the requests that proved no
// identity.
func (s *Service) Accounts() (list []accounts.Figures, unauthorized uint64) {
	return s.gate.accounts.List()
}

// Tokens are the figures of the tokens in use, for metrics; false: the service is not locked.
func (s *Service) Tokens() (st files.TokenStats, locked bool) {
	if s.gate.tokens == nil {
		return st, false
	}
	return s.gate.tokens.Stats(), true
}
