package limits

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// NoteDenial keeps why requests were denied, if they were, under an ID that it puts into d.Denial. Allow does it; it is
// for a listener that denies because of what a peek said. It is for right after the decision.
func (s *Service) NoteDenial(requests []admit.Request, d *admit.Decision) {
	if d.Denied == nil {
		return
	}
	s.denials.Note(requests, d)
	s.parts.Live.Denial(requests, d)
}

func (s *Service) clockOfDenials() (activity.Moment, api.DenialKnowledge) {
	clock := s.parts.Engine
	raw := clock.Wall().Raw()
	now := activity.Moment{Wall: raw.Add(clock.Wall().Corrected()), Raw: raw}
	return now, s.parts.Sources.AboutDenial(now.Wall)
}

// Why is why a request was denied, by the ID of the denial. Who may not read all keys and limits
// of it is answered as if it was not there.
func (s *Service) Why(c access.Caller, id string) (api.DenialAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.DenialAnswer{}, err
	}
	node, number := activity.Cut(id)
	if node != s.denials.Node() {
		return api.DenialAnswer{}, s.notHere(id, node)
	}
	d, found := s.denials.Find(number)
	if !may.All() {
		if found != activity.Here || !mayKnow(may, &d) {
			return api.DenialAnswer{}, &api.Error{Code: api.CodeUnknownDenial, Field: "id",
				Message: "there is no denial " + request.Clip(id) + " that this identity may read, or it is gone: " + keptDenials}
		}
	}
	switch found {
	case activity.Gone:
		return api.DenialAnswer{}, &api.Error{Code: api.CodeDenialGone, Field: "id", Message: "denial " + request.Clip(id) + " was replaced by newer ones: " + keptDenials}
	case activity.Unknown:
		return api.DenialAnswer{}, &api.Error{Code: api.CodeUnknownDenial, Field: "id", Message: "no denial has the ID " + request.Clip(id) + " since this server's start: a restart forgets them"}
	}
	return s.denialAnswer(id, &d), nil
}

// keptDenials says how long IDs are known.
var keptDenials = fmt.Sprintf("a server keeps the newest %d, %d of them for each %dth part of all keys", activity.Kept, activity.PerSet, activity.Sets)

// notHere is the error for an ID of another server.
func (s *Service) notHere(id, node string) error {
	switch own := s.denials.Node(); {
	case own == "":
		return &api.Error{Code: api.CodeUnknownDenial, Field: "id", Message: "denial " + request.Clip(id) + " belongs to node " + request.Clip(node) + " of a cluster, and this is a single server"}
	case node == "":
		return &api.Error{Code: api.CodeUnknownDenial, Field: "id", Message: "denial " + request.Clip(id) + " belongs to a single server: IDs of this cluster begin with the name of a node, for example " + own + "-"}
	default:
		return &api.Error{Code: api.CodeOtherNode, Field: "id", Message: "denial " + request.Clip(id) + " is on node " + request.Clip(node) + ", and this is " + own + ": ask that node"}
	}
}

// mayKnow reports whether all of a denial is for the role.
func mayKnow(may access.Rights, d *activity.Denial) bool {
	if d.More > 0 { // of which nothing was kept
		return false
	}
	for i := range d.Rules {
		if r := &d.Rules[i]; !may.Holds(r.Asked) || !may.Holds(r.Key) || !may.Limit(r.Name) {
			return false
		}
	}
	return true
}

func (s *Service) denialAnswer(id string, d *activity.Denial) api.DenialAnswer {
	answer := api.DenialAnswer{
		ID: id, Node: s.denials.Node(), At: api.Millis(d.At), Times: d.Times, Last: api.Millis(d.Last), More: d.More, Limits: make([]api.DenialLimit, len(d.Rules)),
		Freshness: d.About,
	}
	set := s.parts.Policies.Set()
	for i := range d.Rules {
		answer.Limits[i] = s.denialLimit(d, &d.Rules[i], set)
	}
	return answer
}

// denialLimit is what a rule said. A server alone decides every limit alike: then the answer has the word of the policy.
func (s *Service) denialLimit(d *activity.Denial, r *activity.Rule, set *policy.Set) api.DenialLimit {
	l := api.DenialLimit{
		Name: r.Name, Inline: r.Inline, Asked: r.Asked, Key: r.Key, Where: r.Where.String(), Away: r.Away, NoPart: r.NoPart, Banned: r.Banned, Elsewhere: r.Elsewhere,
		Limit: r.Limit.N, PerSeconds: r.Limit.Per.Seconds(), Burst: r.Limit.Burst, Algorithm: r.Limit.Algorithm.String(), Calendar: r.Limit.Calendar.String(),
		N: r.N, Used: r.Limit.Burst - min(r.Remaining, r.Limit.Burst), Remaining: r.Remaining,
		ResetAt: api.Millis(d.At.Add(request.Milliseconds(r.Reset))), Admissions: admissionsOf(r.Known), Doubt: r.Doubt.Seconds(),
	}
	if r.RetryAfter > 0 {
		at := api.Millis(d.At.Add(request.Milliseconds(r.RetryAfter)))
		l.RetryAt = &at
	}
	if r.Inline {
		return l
	}
	l.Changed = true
	for _, m := range set.Match(r.Asked) {
		if m.Policy.Name != r.Name || m.Except.IsValid() {
			continue
		}
		l.Keys, l.By, l.Line = m.Policy.Keys, m.Policy.By, m.Policy.Line
		if s.denials.Node() == "" {
			l.Where = m.Policy.Where.String()
		}
		l.Override = m.Limit != m.Policy.Limit
		if m.Range.IsValid() {
			l.Range = m.Range.String()
		}
		if parts := m.Parts(); parts != nil {
			l.Region, l.Regions = s.parts.Policies.Region(), parts
			l.Whole = &api.WholeLimit{Limit: m.Limit.N, PerSeconds: m.Limit.Per.Seconds(), Burst: m.Limit.Burst}
		}
		here, _, err := s.parts.Policies.Here(&m.Policy, m.Limit)
		l.Changed = err != nil || here != r.Limit || m.Key != r.Key || m.Policy.Mode != policy.Enforce
	}
	return l
}

// admissionsOf adds up admissions at the same time.
func admissionsOf(known []limit.Admitted) []api.Admission {
	list := make([]api.Admission, 0, len(known))
	for i, a := range known {
		if i > 0 && known[i-1].At == a.At {
			list[len(list)-1].N += a.N
			continue
		}
		list = append(list, api.Admission{At: api.Millis(time.Unix(0, a.At)), N: a.N})
	}
	return list
}

// WhoQuery asks who is limited.
type WhoQuery struct {
	Window time.Duration // the keys were denied within it, before now; at most activity.Pause
	N      int
	Prefix string // only counted keys that begin with it
	Limit  string // only this one; "": all
}

// Who lists the keys that limits deny now, most denied first: those that the caller may read, and no word of others.
func (s *Service) Who(c access.Caller, q WhoQuery) (api.WhoAnswer, error) {
	may, parts, err := s.parts.Gate.EnterPrefix(c, auth.Read, q.Prefix)
	if err != nil {
		return api.WhoAnswer{}, err
	}
	if q.Window < time.Second || q.Window > activity.Pause || q.Window%time.Second != 0 {
		return api.WhoAnswer{}, &api.Error{Code: api.CodeInvalidWindow, Field: "window", Message: "window must be whole seconds from 1s to 5m: denials are kept for 5 minutes"}
	}
	now := s.parts.Sources.Wall()
	keys, over := s.denials.Who(now, q.Window, q.N, func(l *api.LimitedKey) bool {
		return (q.Limit == "" || q.Limit == l.Limit) && may.Limit(l.Limit) &&
			slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(l.Key, part) })
	})
	answer := api.WhoAnswer{At: api.Millis(now), WindowSeconds: int64(q.Window / time.Second), Prefix: q.Prefix, Node: s.denials.Node(), Keys: append([]api.LimitedKey{}, keys...)}
	if may.All() {
		answer.Forgotten = over
	}
	return answer, nil
}
