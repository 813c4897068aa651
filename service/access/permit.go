package access

import (
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/caller"
)

// MayReadFigures fails unless the caller may know of the server as a whole: its metrics.
func (s *Service) MayReadFigures(c caller.Caller) error {
	_, err := s.gate.EnterAll(c, auth.Read)
	return err
}

// ReadsAll tells whether the caller may read all keys. It is not counted as a request: a view
// leaves out what it may not show.
func (s *Service) ReadsAll(c caller.Caller) bool {
	is, err := s.gate.Identity(c)
	return err == nil && (is == nil || is.Permission(auth.Read) != nil && is.Permission(auth.Read).All())
}

// PermitDecision fails unless the caller may ask limits of a key. It is for what a door answers without asking any.
func (s *Service) PermitDecision(c caller.Caller, key string) error {
	is, err := s.gate.Identity(c)
	if err != nil || is == nil {
		return err
	}
	may := s.gate.rights(is, auth.Decide)
	if may.Permission == nil {
		return may.Refuse("", "identity "+is.Name+" has no role decide")
	}
	return may.CheckKey(key)
}

// PermitCounters fails unless the caller may use counters that a door keeps itself, under keys. They are what
// clients build limits from: role decide is for them, unless it is for some limits only.
func (s *Service) PermitCounters(c caller.Caller, keys [][]byte) error {
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

// MayChangeLimit tells whether the caller may reset and grant a policy. It is not counted as a request: a page
// offers no more than it may do.
func (s *Service) MayChangeLimit(c caller.Caller, name string) bool {
	is, err := s.gate.Identity(c)
	if err != nil || is == nil {
		return err == nil
	}
	may := is.Permission(auth.Admin)
	return may != nil && may.Limit(name)
}
