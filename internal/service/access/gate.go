// Package access says who calls, and what the caller may do. It has two sides: a Gate, where each request begins, and a
// Service, by which listeners prove who their clients are.
package access

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/service/request"
)

// Gate is where each request begins. It may be used by many goroutines.
type Gate struct {
	tokens   *Tokens // nil: everybody may do everything
	accounts *Accounts
	record   *slog.Logger // of the audit
}

// NewGate asks for identities of tokens, and writes the audit to a log. nil tokens ask for none.
func NewGate(tokens *Tokens, record *slog.Logger) *Gate {
	return &Gate{tokens: tokens, accounts: NewAccounts(), record: record}
}

// Need is what a request needs of its caller, whatever it asks in detail: a listener has one for each of its routes or commands.
type Need struct {
	Roles []auth.Role // one of them is enough; none: every identity may
	All   bool        // the role must be for all keys and limits

	// Action names what role admin does, for the audit log, which has what was refused too; "": nothing.
	Action string
}

var Decides = Need{Roles: []auth.Role{auth.Decide}}

// Permit fails unless the caller has a role that a request needs, for the keys, or all keys that begin with them, that it names. A listener
// calls it before it parses anything else of the request, so that nobody learns more than that. It counts no request: the methods that
// answer do, and check again.
func (s *Service) Permit(c Caller, need Need, keys ...string) error {
	is, err := s.gate.Identity(c)
	switch {
	case err == nil && (is == nil || len(need.Roles) == 0):
		return nil
	case err == nil:
		err = s.gate.permit(is, need, keys)
	}
	if err != nil && need.Action != "" {
		target := "all"
		if len(keys) > 0 {
			target = request.Clip(keys[0])
		}
		s.gate.Audit(context.Background(), c, need.Action, target, err)
	}
	return err
}

func (g *Gate) permit(is *auth.Identity, need Need, keys []string) error {
	var may Rights
	field, missing := "", ""
	for _, role := range need.Roles {
		may = g.rights(is, role)
		if field, missing = may.missing(need, keys); missing == "" {
			return nil
		}
	}
	may.Account.Requested()
	return may.Refuse(field, missing)
}

// missing says what the rights do not have; "": they have all.
func (a Rights) missing(need Need, keys []string) (field, message string) {
	switch {
	case a.Permission == nil:
		return "", noRole(a)
	case need.All && !a.All():
		return "", notForAll(a)
	}
	for _, key := range keys {
		if !a.Holds(key) {
			return "key", notForKey(a, key)
		}
	}
	return "", ""
}

func noRole(a Rights) string {
	return "identity " + a.Account.Name() + " has no role " + a.Role.String()
}

func notForAll(a Rights) string {
	return "this concerns all keys and limits, and role " + a.Role.String() + " of this identity is for some of them"
}

func notForKey(a Rights, key string) string {
	return "role " + a.Role.String() + " of this identity is not for the key " + request.Clip(key)
}

// Enter begins a request: it fails when the caller has not the role for any key, or has reached its ceiling of
// requests. Whether it is for the key is asked before anything is looked up, so that an answer, and the time it takes,
// says nothing of a key that it is not for.
func (g *Gate) Enter(c Caller, role auth.Role) (Rights, error) {
	is, err := g.Identity(c)
	switch {
	case err != nil:
		return Rights{}, err
	case is == nil:
		return Rights{Permission: auth.Everything, Role: role}, nil
	}
	a := g.rights(is, role)
	a.Account.Requested()
	if a.Permission == nil {
		return Rights{}, a.Refuse("", noRole(a))
	}
	return a, a.Account.TakeRequest()
}

// EnterAll is Enter for what concerns all keys and limits at once.
func (g *Gate) EnterAll(c Caller, role auth.Role) (Rights, error) {
	a, err := g.Enter(c, role)
	if err == nil && !a.All() {
		return Rights{}, a.Refuse("", notForAll(a))
	}
	return a, err
}

// EnterKeys is Enter for keys. It fails as well if the role is not for one of them, or if an answer in JSON could not name it.
func (g *Gate) EnterKeys(c Caller, role auth.Role, keys ...string) (Rights, error) {
	a, err := g.Enter(c, role)
	for _, key := range keys {
		if err == nil {
			err = a.CheckNamed(key)
		}
	}
	return a, err
}

// EnterPrefix is Enter for all keys that begin with prefix: parts are the prefixes of keys among these that the role is for. It fails if there are none.
func (g *Gate) EnterPrefix(c Caller, role auth.Role, prefix string) (a Rights, parts []string, err error) {
	if a, err = g.Enter(c, role); err == nil {
		parts, err = a.PartsOf(prefix)
	}
	return a, parts, err
}

// Identity is who the caller is now; nil where nobody has to prove an identity.
func (g *Gate) Identity(c Caller) (*auth.Identity, error) {
	if g.tokens == nil {
		return nil, nil
	}
	if !c.Known() {
		g.accounts.Unauthorized()
		return nil, &api.Error{Code: api.CodeUnauthorized, Message: "this server needs a token or a client certificate"}
	}
	is, err := g.tokens.Live().Check(c.Login())
	if err != nil {
		g.accounts.Unauthorized()
		return nil, &api.Error{Code: api.CodeUnauthorized, Message: err.Error()}
	}
	return is, nil
}

// rights are what an identity may do in a role, which may be nothing.
func (g *Gate) rights(is *auth.Identity, role auth.Role) Rights {
	return Rights{Permission: is.Permission(role), Role: role, Account: g.accounts.Of(g.tokens.Live().Set(), is)}
}

// MayReadFigures fails unless the caller may know of the server as a whole: its metrics.
func (s *Service) MayReadFigures(c Caller) error {
	_, err := s.gate.EnterAll(c, auth.Read)
	return err
}

// ReadsAll reports whether the caller may read all keys. It is not counted as a request: a view
// leaves out what it may not show.
func (s *Service) ReadsAll(c Caller) bool {
	is, err := s.gate.Identity(c)
	return err == nil && (is == nil || is.Permission(auth.Read) != nil && is.Permission(auth.Read).All())
}

// ReadsPrefix is ReadsAll of the keys that begin with a prefix.
func (s *Service) ReadsPrefix(c Caller, prefix string) bool {
	is, err := s.gate.Identity(c)
	return err == nil && (is == nil || is.Permission(auth.Read).Key(prefix))
}

// PermitDecision fails unless the caller may ask limits of a key. Listeners call it for what they answer without asking a limit.
func (s *Service) PermitDecision(c Caller, key string) error {
	is, err := s.gate.Identity(c)
	if err != nil || is == nil {
		return err
	}
	may := s.gate.rights(is, auth.Decide)
	if may.Permission == nil {
		return may.Refuse("", noRole(may))
	}
	return may.CheckKey(key)
}

// PermitCounters fails unless the caller may use counters that a listener keeps itself, under keys. They are what
// clients build limits from: role decide is for them, unless it is for some limits only.
func (s *Service) PermitCounters(c Caller, keys [][]byte) error {
	if !s.Locked() {
		return nil
	}
	may, err := s.gate.Enter(c, auth.Decide)
	if err != nil {
		return err
	}
	if !may.AllLimits() {
		return may.Refuse("", "role decide of this identity is for policies by name, not for counters")
	}
	for _, key := range keys {
		if err := may.CheckKey(string(key)); err != nil {
			return err
		}
	}
	return nil
}

// MayChangeLimit reports whether the caller may reset and grant a policy. It is not counted as a request: a page
// offers no more than it may do.
func (s *Service) MayChangeLimit(c Caller, name string) bool {
	is, err := s.gate.Identity(c)
	if err != nil || is == nil {
		return err == nil
	}
	may := is.Permission(auth.Admin)
	return may != nil && may.Limit(name)
}

// Rights are what one request may do. The zero Rights are for nothing.
type Rights struct {
	*auth.Permission
	Role    auth.Role
	Account *Account // nil: on a server that is not locked
}

// Refuse is the error of what the role is not for.
func (a Rights) Refuse(field, message string) error {
	if a.Account != nil {
		a.Account.Forbid()
	}
	return &api.Error{Code: api.CodeForbidden, Field: field, Message: message}
}

// Tenant names the identity if it is for some keys or limits only; "": it is for all.
func (a Rights) Tenant() string {
	if a.All() || a.Account == nil {
		return ""
	}
	return a.Account.Name()
}

// Holds reports whether the role is for a key, or for all keys that begin with it. Keys under which
// limits count may also be read by an identity that has the limit.
func (a Rights) Holds(key string) bool {
	if !a.Key(key) {
		return false
	}
	name, is := strings.CutPrefix(key, admit.HitPrefix)
	if !is || a.AllLimits() {
		return true
	}
	name, _, whole := strings.Cut(name, ":") // names of limits have none
	return whole && a.Limit(name)
}

// CheckKey fails unless the role is for a key.
func (a Rights) CheckKey(key string) error {
	if a.Holds(key) {
		return nil
	}
	return a.Refuse("key", notForKey(a, key))
}

// CheckNamed is CheckKey that refuses a key that an answer in JSON could not name, too; the engine checks the rest.
func (a Rights) CheckNamed(key string) error {
	if !utf8.ValidString(key) {
		return &api.Error{Code: api.CodeInvalidKey, Field: "key", Message: "key " + strconv.Quote(request.Clip(key)) + " is not UTF-8"}
	}
	return a.CheckKey(key)
}

// PartsOf is what of the keys with a prefix the role is for; it fails if that is none.
func (a Rights) PartsOf(prefix string) (parts []string, err error) {
	parts = a.Within(prefix)
	if strings.HasPrefix(prefix, admit.HitPrefix) && !a.AllLimits() {
		parts = nil
	}
	if len(parts) == 0 {
		return nil, a.Refuse("prefix", "role "+a.Role.String()+" of this identity is for no key that begins with "+request.Clip(prefix))
	}
	return parts, nil
}

// Sees reports whether the role may read a policy, by its name and pattern of keys, and how it decided: all keys that
// it is for are the role's. Which keys it counts, and what they have used, is the role's key by key (Holds).
func (a Rights) Sees(name, keys string) bool { return a.Limit(name) && a.Key(pattern.LiteralOf(keys)) }

// Owns reports whether the role may put and delete a policy: all keys that it is for are the role's, and so are all keys
// that its template by makes of them to be counted.
func (a Rights) Owns(name, keys, by string) bool {
	return a.Sees(name, keys) && (by == "" || a.Key(pattern.LiteralOf(by)))
}

// CheckDecision fails unless the role is for all that a decision asks. Who has some limits only must say which it asks.
func (a Rights) CheckDecision(requests []admit.Request) error {
	if a.All() {
		return nil
	}
	for i := range requests {
		r := &requests[i]
		if err := a.CheckKey(r.Key); err != nil {
			return err
		}
		switch {
		case a.AllLimits():
		case r.Inline != nil:
			return a.Refuse("limit", "role decide of this identity is for policies by name, not for limits that a request brings along")
		case r.Limit == "":
			return a.Refuse("limit", "role decide of this identity is for some limits only: name the one that is asked")
		case !a.Limit(r.Limit):
			return a.Refuse("limit", "role decide of this identity is not for the limit "+request.Clip(r.Limit))
		}
	}
	return nil
}
