package access

import (
	"log/slog"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/accounts"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/files"
	"github.com/weir-counter/weir/service/rights"
)

// Gate is where each request of a room begins. It may be used by many goroutines.
type Gate struct {
	tokens   *files.Tokens // nil: everybody may do everything
	accounts *accounts.Accounts
	record   *slog.Logger // of the audit
}

// NewGate asks for identities of tokens, and writes the audit to a log. nil tokens ask for none.
func NewGate(tokens *files.Tokens, record *slog.Logger) *Gate {
	return &Gate{tokens: tokens, accounts: accounts.New(), record: record}
}

// Enter begins a request: it fails when the caller has not the role for any key, or has
// reached its ceiling of requests. Whether it is for the key is asked before anything is
// looked up, so that an answer, and the time it takes, says nothing of a key that it is not
// for.
func (g *Gate) Enter(c caller.Caller, role auth.Role) (rights.Rights, error) {
	is, err := g.Identity(c)
	switch {
	case err != nil:
		return rights.Rights{}, err
	case is == nil:
		return rights.Rights{Permission: auth.Everything, Role: role}, nil
	}
	a := g.rights(is, role)
	a.Account.Requested()
	if a.Permission == nil {
		return rights.Rights{}, a.Refuse("", "identity "+is.Name+" has no role "+role.String())
	}
	return a, a.Account.TakeRequest()
}

// EnterAll is Enter for what concerns all keys and limits at once.
func (g *Gate) EnterAll(c caller.Caller, role auth.Role) (rights.Rights, error) {
	a, err := g.Enter(c, role)
	if err == nil && !a.All() {
		return rights.Rights{}, a.Refuse("", "this concerns all keys and limits, and role "+role.String()+" of this identity is for some of them")
	}
	return a, err
}

// Identity is who the caller is now; nil where nobody has to prove an identity.
func (g *Gate) Identity(c caller.Caller) (*auth.Identity, error) {
	if g.tokens == nil {
		return nil, nil
	}
	if !c.Known() {
		g.accounts.Unauthorized()
		return nil, &failure.Error{Code: api.CodeUnauthorized, Message: "this server wants to know who asks"}
	}
	is, err := g.tokens.Live().Check(c.Login())
	if err != nil {
		g.accounts.Unauthorized()
		return nil, &failure.Error{Code: api.CodeUnauthorized, Message: err.Error()}
	}
	return is, nil
}

// rights are those of an identity in a role, of which it may have none.
func (g *Gate) rights(is *auth.Identity, role auth.Role) rights.Rights {
	return rights.Rights{Permission: is.Permission(role), Role: role, Account: g.accounts.Of(g.tokens.Live().Set(), is)}
}
