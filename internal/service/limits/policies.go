package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/policy"
)

// putTimeout bounds a change to the policies: a lost leader is silent for up to 9 s.
const putTimeout = 20 * time.Second

// PutPolicy puts a policy, the text of its fields, in place of the one of its name that was put before. It is role admin's, who must be
// for the limit and all its keys, also as they were. It returns once most nodes have it on disk.
func (s *Service) PutPolicy(ctx context.Context, c access.Caller, name, text string, want admit.PolicyCondition) (answer api.PutAnswer, err error) {
	target := request.Clip(name)
	defer func() { s.parts.Gate.Audit(ctx, c, "put policy", target, err) }()
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err != nil {
		return answer, err
	}
	if !may.Limit(name) {
		return answer, mayNotChange(may, name)
	}
	from, err := s.keptPolicies()
	if err != nil {
		return answer, err
	}
	set, err := from.Check(name, text)
	switch {
	case s.known(name) && !s.owns(may, name):
		return answer, mayNotChange(may, name)
	case err != nil:
		return answer, notPut(err)
	}
	if keys, by, _ := set.KeysOf(name); !may.Owns(name, keys, by) {
		return answer, mayNotChange(may, name)
	}
	put := admit.StoredPolicy{Name: name, Text: text, By: whoIs(c)}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	want.Share = !may.All()
	isNew, err := from.Put(ctx, &put, want)
	if err != nil {
		s.parts.Log.Warn("a policy was not put", "policy", name, "error", err)
		return answer, notPut(err)
	}
	target = fmt.Sprintf("%s version %d", target, put.Version)
	answer = api.PutAnswer{KeptPolicy: asKept(access.KeptPolicy{StoredPolicy: put}), New: isNew}
	if now, there := s.findKept(name); there && now.Version == put.Version {
		answer.InUse, answer.Why = now.Unused == "", now.Unused
	}
	return answer, nil
}

// DeletePolicy deletes a policy that was put by API. It is role admin's.
func (s *Service) DeletePolicy(ctx context.Context, c access.Caller, name string, want admit.PolicyCondition) (answer api.DeletedPolicy, err error) {
	target := request.Clip(name)
	defer func() { s.parts.Gate.Audit(ctx, c, "delete policy", target, err) }()
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err == nil && !s.owns(may, name) {
		err = mayNotChange(may, name)
	}
	if err != nil {
		return answer, err
	}
	from, err := s.keptPolicies()
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	gone, err := from.Delete(ctx, name, want)
	if err != nil {
		return answer, notPut(err)
	}
	target = fmt.Sprintf("%s version %d", target, gone.Version)
	return api.DeletedPolicy{Name: name, Version: gone.Version}, nil
}

// Policy is a policy that was put by API, as this node knows it. It is role admin's.
func (s *Service) Policy(c access.Caller, name string) (api.KeptPolicy, error) {
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err == nil && !s.owns(may, name) {
		err = mayNotChange(may, name)
	}
	if err == nil {
		_, err = s.keptPolicies()
	}
	if err != nil {
		return api.KeptPolicy{}, err
	}
	p, there := s.findKept(name)
	if !there {
		return api.KeptPolicy{}, notPut(fmt.Errorf("%w: %q", admit.ErrUnknown, request.Clip(name)))
	}
	return asKept(p), nil
}

// Policies lists the policies that were put by API and are for the caller, as this node knows them. It is role admin's.
func (s *Service) Policies(c access.Caller) (answer api.PoliciesAnswer, err error) {
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err != nil {
		return answer, err
	}
	from, err := s.keptPolicies()
	if err != nil {
		return answer, err
	}
	list, version := from.List()
	answer = api.PoliciesAnswer{Version: version, Policies: []api.KeptPolicy{}}
	for _, p := range list {
		if s.owns(may, p.Name) {
			answer.Policies = append(answer.Policies, asKept(p))
		}
	}
	return answer, nil
}

// keptPolicies fails where none can be put.
func (s *Service) keptPolicies() (*access.KeptPolicies, error) {
	if s.parts.Kept == nil {
		return nil, &api.Error{Code: api.CodeNoPoliciesAPI, Message: "this server accepts no policies by API (--policies-api off): change its policy file"}
	}
	return s.parts.Kept, nil
}

func (s *Service) findKept(name string) (access.KeptPolicy, bool) {
	list, _ := s.parts.Kept.List()
	at := slices.IndexFunc(list, func(p access.KeptPolicy) bool { return p.Name == name })
	if at < 0 {
		return access.KeptPolicy{}, false
	}
	return list[at], true
}

// known reports whether there is a policy of a name.
func (s *Service) known(name string) bool {
	if _, used := s.parts.Policies.Set().VersionOf(name); used {
		return true
	}
	_, put := s.findKept(name)
	return put
}

// owns reports whether the role may change the policy of a name. A role for some policies does not own one that does
// not exist or is not in use. So it does not learn which policies exist.
func (s *Service) owns(may access.Rights, name string) bool {
	if may.All() {
		return true
	}
	keys, by, ok := s.parts.Policies.Set().KeysOf(name)
	return ok && may.Owns(name, keys, by)
}

func mayNotChange(may access.Rights, name string) error {
	return may.Refuse("name", "role admin of this identity is not for the limit "+request.Clip(name)+", or not for all of its keys")
}

// whoIs names the caller, as the audit log does.
func whoIs(c access.Caller) string {
	if c.Known() {
		return c.Name()
	}
	return "anybody"
}

func asKept(p access.KeptPolicy) api.KeptPolicy {
	return api.KeptPolicy{Name: p.Name, Version: p.Version, Policy: p.Text, By: p.By, At: api.Millis(p.At), InUse: p.Unused == "", Why: p.Unused}
}

// notPut is why policies were not changed.
func notPut(err error) error {
	if faults, is := errors.AsType[policy.Faults](err); is {
		return &api.Error{Code: api.CodeInvalidPolicy, Message: faults.Error()}
	}
	if wrong, is := errors.AsType[*engine.Error](err); is {
		return &api.Error{Code: api.CodeInvalidPolicy, Field: wrong.Field, Message: wrong.Message}
	}
	for cause, code := range map[error]api.Code{admit.ErrPolicyVersion: api.CodeVersionMismatch, admit.ErrUnknown: api.CodeUnknownLimit, admit.ErrFull: api.CodePoliciesFull} {
		if errors.Is(err, cause) {
			return &api.Error{Code: code, Field: "name", Message: err.Error()}
		}
	}
	var refused *api.Error
	switch {
	case errors.Is(err, access.ErrInFile):
		return &api.Error{Code: api.CodePolicyInFile, Field: "name", Message: err.Error() + ", and the file goes first: change it there, or start the servers with --policies-api api-wins"}
	case errors.As(err, &refused):
		return refused
	}
	return &api.Error{Code: api.CodeNotDurable, Message: "the change may have been made: most nodes did not confirm it in time. Read the policy before you try again"}
}
