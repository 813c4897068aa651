package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/service/request"
)

// Service tells listeners who their clients are, and what they may do.
type Service struct{ gate *Gate }

// New is the listeners' side of a Gate.
func New(gate *Gate) *Service { return &Service{gate} }

// Locked reports whether callers must prove an identity. Where they need not, all may do
// everything, and what proves one is not looked at.
func (s *Service) Locked() bool { return s.gate.tokens != nil }

// WithToken is the caller as whom a token proves it to be: weir_<id>_<secret>.
func (s *Service) WithToken(c Caller, token string) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Token(token) })
}

// WithPassword is WithToken for protocols with a user and a password, which is the token. The
// user is the identity's name, "" or "default".
func (s *Service) WithPassword(c Caller, user, password string) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Password(user, password) })
}

// WithCertificate returns the caller with the identity that its certificate proves, by the chains that TLS verified.
// Without a chain it returns the caller as it is.
func (s *Service) WithCertificate(c Caller, chains [][]*x509.Certificate) (Caller, error) {
	if len(chains) == 0 {
		return c, nil
	}
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Certificate(auth.CertificateOf(chains)) })
}

// WithName is the caller as an identity that nothing is proved of: for listeners of protocols that can't, whose
// operator says whose hits they are.
func (s *Service) WithName(c Caller, name string) (Caller, error) {
	return s.with(c, func(known *auth.Live) (*auth.Login, error) { return known.Named(name) })
}

func (s *Service) with(c Caller, by func(*auth.Live) (*auth.Login, error)) (Caller, error) {
	if !s.Locked() {
		return c, nil
	}
	login, err := by(s.gate.tokens.Live())
	if err != nil {
		s.gate.accounts.Unauthorized()
		return c, &api.Error{Code: api.CodeUnauthorized, Message: err.Error()}
	}
	return c.As(login), nil
}

// Identify fails where the caller has to prove an identity, and has not, or no longer: its token
// was revoked or has expired. A listener says to a caller that is not Known how its protocol proves one.
func (s *Service) Identify(c Caller) error {
	_, err := s.gate.Identity(c)
	return err
}

// Scope returns a text that changes when what the caller may do changes. An answer that was made for one scope is not for a caller with another.
// It fails as Identify does.
func (s *Service) Scope(c Caller) (string, error) {
	is, err := s.gate.Identity(c)
	if err != nil || is == nil {
		return "", err
	}
	return is.Scope(), nil
}

// Accounts are the figures of all identities, by name, for metrics.
func (s *Service) Accounts() []AccountFigures { return s.gate.accounts.List() }

// Tokens are the figures of the tokens in use, for metrics. The service must be locked.
func (s *Service) Tokens() TokenStats {
	st := s.gate.tokens.Stats()
	st.Unauthorized = s.gate.accounts.unauthorized.Load()
	return st
}

// Audit notes an action of role admin that was tried: who did what to what, and how it ended. The time is the record's.
func (g *Gate) Audit(ctx context.Context, c Caller, action, target string, err error) {
	outcome := "done"
	if err != nil {
		if outcome = string(request.As(err).Code); outcome == string(api.CodeInternal) {
			outcome = "failed"
		}
	}
	who := c.Name()
	if who == "" {
		who = "anybody" // nobody has to prove an identity here, or has not
	}
	g.record.LogAttrs(ctx, slog.LevelInfo, "audit", slog.String("who", who), slog.String("action", action),
		slog.String("target", target), slog.String("outcome", outcome), slog.String("remote", c.Remote()))
}

// Invariant: a client that opens more connections, or has more addresses of one IPv6 network, is still one caller.

// Caller is who a request comes from: an address, and who has proved to be there. The address is an IPv4 one, or the
// /64 of an IPv6 one, which is one household. The zero Caller stands for all others, such as clients of a socket
// without addresses. A listener makes one for each connection, adds the identity, and hands it to every call.
type Caller struct {
	addr  netip.Addr
	login *auth.Login // nil: nobody has proved anything
}

// CallerAt is the client of a connection, by its remote address host:port.
func CallerAt(remote string) Caller {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return Caller{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return Caller{addr: addr}
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return Caller{}
	}
	return Caller{addr: prefix.Addr()}
}

// As is the caller with the identity that a login proves.
func (c Caller) As(login *auth.Login) Caller {
	c.login = login
	return c
}

// Login is what the caller has proved; nil: nothing.
func (c Caller) Login() *auth.Login { return c.login }

// Known reports whether the caller has proved an identity.
func (c Caller) Known() bool { return c.login != nil }

// Name is the name of the caller's identity, "" without one.
func (c Caller) Name() string {
	if c.login == nil {
		return ""
	}
	return c.login.Identity.Name
}

// Remote is the address, or "invalid IP" of the zero Caller.
func (c Caller) Remote() string { return c.addr.String() }

// String is the name, or the address of a caller without one.
func (c Caller) String() string {
	if c.login != nil {
		return "identity " + c.Name()
	}
	return c.Remote()
}

// Own makes the key of an idempotent request or a reservation this identity's own, so that no other identity can ask for its
// result. Its length does not depend on the name.
func (c Caller) Own(key string) string {
	if !c.Known() {
		return key
	}
	own := sha256.Sum256([]byte(c.Name() + "\x00" + key))
	return hex.EncodeToString(own[:])
}

// account is whom pools give a share: the identity, wherever it calls from, or the address. Of everybody it is both.
type account struct {
	name string
	addr netip.Addr
}

func (c Caller) account() account {
	if c.login != nil && !c.login.Everybody() {
		return account{name: c.Name()}
	}
	return account{name: c.Name(), addr: c.addr}
}

// CallerCounts is how much each caller has of something; a caller that has nothing takes no memory. Its owner guards
// it.
type CallerCounts map[account]int64

// Of is how much a caller has.
func (m CallerCounts) Of(c Caller) int64 { return m[c.account()] }

// Add gives a caller n more, or takes with n below 0 what it has.
func (m CallerCounts) Add(c Caller, n int64) {
	account := c.account()
	if m[account] += n; m[account] == 0 {
		delete(m, account)
	}
}

// OpenToOthers reports whether other machines may reach an address that a listener listens on.
func OpenToOthers(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

// A service follows two files while it runs: who may do what (Tokens), and which limits requests have (PolicyFile).
//
// Invariants: a node does not start with a file that is wrong. One that becomes wrong later leaves in use what was read
// before, and raises an alarm until it is right again.

// Tokens is the file that says who may do what, and the identities in use. It is safe for
// many goroutines. A nil one locks nothing.
type Tokens struct {
	path   string
	live   *auth.Live
	reload concurrency.Signal // holds one: a reload that has not begun is for all that ask

	mu      sync.Mutex // guards trouble
	trouble string     // why the newest file is not in use; "": it is
}

// ReadTokens reads the file for the first time. A node does not start with one that is wrong.
// With the path "" the result is nil.
func ReadTokens(path string) (*Tokens, error) {
	if path == "" {
		return nil, nil
	}
	set, err := auth.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the tokens file can't be used: %w\n'weir token create' makes one", err)
	case err != nil:
		return nil, fmt.Errorf("the tokens file can't be used:\n%w", err)
	}
	return &Tokens{path: path, live: auth.NewLive(set), reload: concurrency.NewSignal()}, nil
}

// NewTokens locks a service with a Set that no file is followed for: for tests, and for programs
// that keep identities elsewhere.
func NewTokens(set *auth.Set) *Tokens {
	return &Tokens{live: auth.NewLive(set), reload: concurrency.NewSignal()}
}

// Live is the identities in use. t must not be nil.
func (t *Tokens) Live() *auth.Live { return t.live }

// Reload asks for the file to be read again, soon.
func (t *Tokens) Reload() {
	if t != nil {
		t.reload.Raise()
	}
}

// Watch follows the file on a goroutine of its own until ctx ends. ended returns when that has.
func (t *Tokens) Watch(ctx context.Context, log *slog.Logger) (ended func()) {
	var watching sync.WaitGroup
	if t != nil && t.path != "" {
		log.Info("tokens are in use", "file", t.path, "identities", len(t.live.Set().Identities()))
		watching.Go(func() { t.live.Watch(ctx, t.path, t.reload, func(err error) { t.note(err, log) }) })
	}
	return watching.Wait
}

func (t *Tokens) note(err error, log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.trouble = ""
		log.Info("tokens are in use", "file", t.path, "identities", len(t.live.Set().Identities()))
		return
	}
	t.trouble = err.Error()
	for line := range strings.SplitSeq(t.trouble, "\n") {
		log.Error("tokens file", "problem", line)
	}
}

// Alarms say that tokens that were revoked may still be good.
func (t *Tokens) Alarms() []api.Alarm {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trouble == "" {
		return nil
	}
	return []api.Alarm{{Code: "tokens_file_bad", Message: "the newest tokens file is invalid or unreadable, and the previous tokens apply, including revoked ones: the server's log says why"}}
}

// expiringSoon is how long before its end a token is worth a warning in metrics.
const expiringSoon = 7 * 24 * time.Hour

// TokenStats are figures of the tokens in use, for metrics.
type TokenStats struct {
	Identities   int    `metric:"weir_identities" doc:"Identities of the tokens file in use."`
	Good         int    `metric:"weir_tokens,state=good" doc:"Tokens of the tokens file, by state: expired, expiring within a week, or valid."`
	ExpiringSoon int    `metric:"weir_tokens,state=expires_soon"`
	Expired      int    `metric:"weir_tokens,state=expired"`
	FileBad      bool   `metric:"weir_tokens_file_bad" doc:"1 while the newest tokens file is invalid or unreadable; the previous tokens apply."`
	Unauthorized uint64 `metric:"weir_unauthorized_total" doc:"Requests without a valid token or certificate."`
}

// Stats are those figures now.
func (t *Tokens) Stats() (st TokenStats) {
	st.FileBad = len(t.Alarms()) > 0
	set, now := t.live.Set(), time.Now()
	for _, i := range set.Identities() {
		st.Identities++
		for _, token := range set.Tokens(i.Name) {
			switch {
			case token.Expired(now):
				st.Expired++
			case token.Expired(now.Add(expiringSoon)):
				st.ExpiringSoon++
			default:
				st.Good++
			}
		}
	}
	return st
}
