package service

import (
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/rights"
)

// enter begins a request: it fails when the caller has not the role for any key, or has
// reached its ceiling of requests. Whether it is for the key is asked before anything is
// looked up, so that an answer, and the time it takes, says nothing of a key that it is not
// for.
func (s *Service) enter(c Caller, role auth.Role) (rights.Rights, error) {
	is, err := s.identity(c)
	switch {
	case err != nil:
		return rights.Rights{}, err
	case is == nil:
		return rights.Rights{Permission: auth.Everything, Role: role}, nil
	}
	a := rights.Rights{Permission: is.Permission(role), Role: role, Account: s.accounts.Of(s.backend.Tokens.Live().Set(), is)}
	a.Account.Requested()
	if a.Permission == nil {
		return rights.Rights{}, a.Refuse("", "identity "+is.Name+" has no role "+role.String())
	}
	return a, a.Account.TakeRequest()
}

// enterAll is enter for what concerns all keys and limits at once.
func (s *Service) enterAll(c Caller, role auth.Role) (rights.Rights, error) {
	a, err := s.enter(c, role)
	if err == nil && !a.All() {
		return rights.Rights{}, a.Refuse("", "this concerns all keys and limits, and role "+role.String()+" of this identity is for some of them")
	}
	return a, err
}

// MayReadFigures fails unless the caller may know of the server as a whole: its metrics.
func (s *Service) MayReadFigures(c Caller) error {
	_, err := s.enterAll(c, auth.Read)
	return err
}

// ReadsAll tells whether the caller may read all keys. It is not counted as a request: a view
// leaves out what it may not show.
func (s *Service) ReadsAll(c Caller) bool {
	is, err := s.identity(c)
	return err == nil && (is == nil || is.Permission(auth.Read) != nil && is.Permission(auth.Read).All())
}

// PermitDecision fails unless the caller may ask limits of a key. It is for what a door answers without asking any.
func (s *Service) PermitDecision(c Caller, key string) error {
	is, err := s.identity(c)
	if err != nil || is == nil {
		return err
	}
	may := rights.Rights{Permission: is.Permission(auth.Decide), Role: auth.Decide, Account: s.accounts.Of(s.backend.Tokens.Live().Set(), is)}
	if may.Permission == nil {
		return may.Refuse("", "identity "+is.Name+" has no role decide")
	}
	return may.CheckKey(key)
}

// PermitCounters fails unless the caller may use counters that a door keeps itself, under keys. They are what
// clients build limits from: role decide is for them, unless it is for some limits only.
func (s *Service) PermitCounters(c Caller, keys [][]byte) error {
	if !s.Locked() {
		return nil
	}
	may, err := s.enter(c, auth.Decide)
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
