package limits

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/wire"
)

// ResetLimit forgets what a key, as it is counted, has used of a limit, and takes its grant
// back: admit.Live.Reset. Of a policy it is role admin's. What keys have used of limits that
// requests brought along is also theirs who bring them, by role decide.
func (s *Service) ResetLimit(ctx context.Context, c access.Caller, name, key string) (_ api.ResetAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "reset limit", request.Clip(name)+" of "+request.Clip(key), err) }()
	role := auth.Admin
	if s.parts.Policies.IsInline(name, key) {
		role = auth.Decide
	}
	may, err := s.parts.Gate.Enter(c, role)
	if err != nil && role == auth.Decide {
		may, err = s.parts.Gate.Enter(c, auth.Admin)
	}
	if err == nil {
		err = s.mayChange(may, name, key)
	}
	if err != nil {
		return api.ResetAnswer{}, err
	}
	made, known, err := s.parts.Policies.Reset(name, key)
	switch {
	case err != nil:
		return api.ResetAnswer{}, err
	case !known:
		return api.ResetAnswer{}, s.unknownLimit(may, name)
	}
	return api.ResetAnswer{Name: made.Name, Key: key, Was: made.Was, Remaining: made.Remaining}, nil
}

// ResetInline forgets what a key has used of the limits that requests defined themselves. It resets the names that the
// caller may ask, by role decide or admin. It returns for how many limits there was something to forget.
func (s *Service) ResetInline(ctx context.Context, c access.Caller, key string) (was int, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "reset inline limits", request.Clip(key), err) }()
	may, err := s.parts.Gate.Enter(c, auth.Decide)
	if admin, refused := s.parts.Gate.Enter(c, auth.Admin); err != nil && refused == nil {
		may, err = admin, nil
	}
	if err == nil {
		err = may.CheckNamed(key)
	}
	if err == nil && !may.AllLimits() {
		err = may.Refuse("", "role "+may.Role.String()+" of this identity is for limits by name: name the one to reset")
	}
	if err != nil {
		return 0, err
	}
	return s.parts.Policies.ResetInline(ctx, key)
}

// GrantLimit gives a key, as it is counted, n admissions in addition to a limit until a time: admit.Live.Grant. An n of
// 0 takes back what is left of a grant.
func (s *Service) GrantLimit(ctx context.Context, c access.Caller, name, key string, n uint64, until time.Time) (_ api.GrantAnswer, err error) {
	defer func() {
		s.parts.Gate.Audit(ctx, c, "grant", fmt.Sprintf("%d of %s to %s", n, request.Clip(name), request.Clip(key)), err)
	}()
	may, err := s.enterChange(c, name, key)
	if err == nil && n > 0 {
		err = may.TakeShare(access.Grants, engine.MaxGrants, func() (all int) {
			s.parts.Engine.Limits().Grants(func(_, key string) { all += ones(may.Holds(key)) })
			return all
		})
	}
	if err != nil {
		return api.GrantAnswer{}, err
	}
	made, known, err := s.parts.Policies.Grant(name, key, n, until)
	switch {
	case err != nil:
		return api.GrantAnswer{}, err
	case !known:
		return api.GrantAnswer{}, s.unknownLimit(may, name)
	}
	answer := api.GrantAnswer{Name: made.Name, Key: key, N: n, Remaining: made.Remaining}
	if n > 0 {
		answer.Until = &api.Time{Time: until}
	}
	return answer, nil
}

// enterChange begins a change of a limit's key, which is role admin's.
func (s *Service) enterChange(c access.Caller, name, key string) (access.Rights, error) {
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err == nil {
		err = s.mayChange(may, name, key)
	}
	return may, err
}

// mayChange fails unless the role is for a limit and one of its keys, whether they are there or not. Who may not read a limit learns
// of it only that it counts the key.
func (s *Service) mayChange(may access.Rights, name, key string) error {
	if err := may.CheckNamed(key); err != nil {
		return err
	}
	if !may.AllLimits() && !may.Limit(name) {
		return may.Refuse("name", "role "+may.Role.String()+" of this identity is not for the limit "+request.Clip(name))
	}
	if !may.All() && !s.parts.Policies.MayCount(name, key) && !s.seesLimit(may, name) {
		return noLimit(name)
	}
	return nil
}

// Refund gives back what Allow took for the same requests at one time: admit.Live.Refund. The zero time stands for the
// newest admissions. Role decide suffices.
//
// An idempotency key has 1 to engine.MaxOnceKeyBytes bytes. A repetition within ten minutes gives nothing back and
// returns the first answer. A repetition with another content is refused (CodeKeyReused).
func (s *Service) Refund(ctx context.Context, c access.Caller, requests []admit.Request, taken time.Time, key string) (answer api.RefundAnswer, err error) {
	defer func() {
		if len(requests) > 0 {
			s.parts.Gate.Audit(ctx, c, "refund", fmt.Sprintf("%d of %s, and %d more", requests[0].N, request.Clip(requests[0].Key), len(requests)-1), err)
		}
	}()
	made, err := s.giveBack(ctx, c, requests, taken, key)
	answer.Limits = make([]api.LimitRefund, len(made))
	for i, m := range made {
		answer.Limits[i] = api.LimitRefund{Name: m.Name, Key: m.Key, Refunded: m.Freed, Remaining: m.Remaining}
		if i == 0 || m.Freed < answer.Refunded {
			answer.Refunded = m.Freed
		}
	}
	return answer, err
}

// GiveBack is Refund of what was taken last, without a line in the audit log: for a listener whose requests give back all the time.
func (s *Service) GiveBack(c access.Caller, requests []admit.Request) ([]admit.Changed, error) {
	return s.giveBack(context.Background(), c, requests, time.Time{}, "")
}

func (s *Service) giveBack(ctx context.Context, c access.Caller, requests []admit.Request, taken time.Time, key string) ([]admit.Changed, error) {
	may, err := s.enter(c, requests)
	if err != nil {
		return nil, err
	}
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return nil, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if key != "" {
		// The receipt tells contents apart, and no more: each limit's part knows itself whether it was made.
		key = c.Own(key)
		if _, _, err := s.parts.Engine.OnceFrom(ctx, c.String(), key, contentOf(taken.AppendFormat(nil, time.RFC3339Nano), requests), func() []byte { return []byte{1} }); err != nil {
			return nil, err
		}
	}
	made, err := s.parts.Policies.Refund(requests, taken, key, may.Tenant())
	if err != nil {
		return nil, s.undecided(may, err)
	}
	return made, nil
}

// settleWait is how long a reservation that is not known here is looked for at other nodes.
const settleWait = 2 * time.Second

// lookEvery is how often it is looked for meanwhile.
const lookEvery = 10 * time.Millisecond

// defaultReservation is for how long a reservation can be settled where nobody says.
const defaultReservation = time.Minute

// Reservation is how a request reserves.
type Reservation struct {
	ID       string        // chosen by who asks, so that the request may be sent again; "": one is made
	TTL      time.Duration // 0: a minute
	GiveBack bool          // what is not settled is given back; else it stays used
}

// Reserve is Allow of requests whose need is known later, and returns the ID to settle them by; "" for a denial. With an ID
// that is known it takes nothing more: known is true, and d says nothing. With other requests, or another TTL, the ID is refused
// with CodeKeyReused.
func (s *Service) Reserve(c access.Caller, requests []admit.Request, r Reservation, d *admit.Decision) (id string, known bool, err error) {
	may, err := s.enter(c, requests)
	if err != nil {
		return "", false, err
	}
	chosen := r.ID != ""
	until, err := s.reservedUntil(&r)
	if err != nil {
		return "", false, err
	}
	own := c.Own(r.ID)
	if _, busy := s.reserving.LoadOrStore(own, true); busy {
		return "", false, &api.Error{Code: api.CodeOverloaded, Field: "id", Message: "another request is making a reservation with the id " + request.Clip(r.ID) + ": try again"}
	}
	defer s.reserving.Delete(own)
	content := r.content(requests)
	if parts := s.parts.Engine.Limits().Reserved(own); len(parts) > 0 {
		return r.repeats(parts, content)
	}
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return "", false, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if err := may.TakeShare(access.Reservations, engine.MaxReservations, func() (n int) {
		s.parts.Engine.Limits().OpenReservations(func(_, key string, _ uint64) { n += ones(may.Holds(key)) })
		return n
	}); err != nil {
		return "", false, err
	}
	d.Tenant = may.Tenant()
	err = s.parts.Policies.Reserve(requests, engine.Reservation{ID: own, Until: until, GiveBack: r.GiveBack, Content: content}, d)
	switch {
	case err != nil:
		return "", false, s.undecided(may, err)
	case d.Never:
		return "", false, neverPasses(d)
	}
	if d.Repeats || !d.Allowed && chosen && s.parts.Node != "" { // what denies may be what another node reserved a moment ago
		if parts, _ := s.awaitParts(context.Background(), own); len(parts) > 0 { // within settleWait, and then by what is known
			return r.repeats(parts, content)
		}
	}
	if d.Repeats {
		return r.ID, true, nil
	}
	s.banDenied(may, d)
	if r := d.Undecided(); r != nil {
		return "", false, ownerUnreachable(r)
	}
	s.count(d)
	if !d.Allowed {
		s.NoteDenial(requests, d)
	}
	if !d.Allowed || len(d.Results) == 0 {
		return "", false, nil
	}
	return r.ID, false, nil
}

// repeats answers a request under the ID of a reservation of which these parts are known.
func (r *Reservation) repeats(parts []engine.ReservedPart, content uint64) (id string, known bool, err error) {
	switch {
	case parts[0].Content != content:
		return "", false, &api.Error{Code: api.CodeKeyReused, Field: "id", Message: "the id " + request.Clip(r.ID) + " belongs to a reservation with other keys, n, limits or ttl: use a new id for each reservation"}
	case !whole(parts) && open(parts):
		return "", false, inPart(r.ID)
	}
	return r.ID, true, nil
}

// content identifies what was reserved. It is stored with the reservation, so that a repeat with other content is refused.
func (r *Reservation) content(requests []admit.Request) uint64 {
	return contentOf(wire.AppendBool(binary.AppendUvarint(nil, uint64(r.TTL)), r.GiveBack), requests)
}

// contentOf hashes requests and the bytes b, to recognize another request under the same ID. It is never 0.
func contentOf(b []byte, requests []admit.Request) uint64 {
	for i := range requests {
		q := &requests[i]
		b = binary.AppendUvarint(wire.AppendText(wire.AppendText(b, q.Key), q.Limit), q.N)
		for _, c := range q.Costs {
			b = binary.AppendUvarint(wire.AppendText(b, c.Field), c.N)
		}
		if inline := q.Inline; inline != nil {
			b = binary.AppendUvarint(binary.AppendUvarint(append(b, byte(inline.Algorithm)), inline.N), uint64(inline.Per))
			b = wire.AppendText(binary.AppendUvarint(b, inline.Burst), inline.Calendar.String())
		}
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // a hash takes everything
	return max(1, h.Sum64())
}

// reservedUntil checks a reservation, fills in what is left out, and returns when it is over.
func (s *Service) reservedUntil(r *Reservation) (time.Time, error) {
	if r.TTL == 0 {
		r.TTL = defaultReservation
	}
	switch {
	case r.TTL < 0 || r.TTL > engine.MaxReservation:
		return time.Time{}, &api.Error{Code: api.CodeInvalidWindow, Field: "ttl", Message: "ttl of " + r.TTL.String() + ": must be more than 0, and at most 24h"}
	case len(r.ID) > engine.MaxReservationID:
		return time.Time{}, &api.Error{Code: api.CodeInvalidParameter, Field: "id", Message: "the id of a reservation must have 1 to 64 bytes"}
	case r.ID == "":
		r.ID = rand.Text()
	}
	return s.parts.Sources.Now().Add(r.TTL), nil
}

// Settle says how many of a reservation's admissions were used: admit.Live.Settle. It is for the identity that reserved: the ids of
// others are not known to it.
func (s *Service) Settle(ctx context.Context, c access.Caller, id string, used admit.Used, debt bool) (api.SettleAnswer, error) {
	none := api.SettleAnswer{}
	if _, err := s.parts.Gate.Enter(c, auth.Decide); err != nil {
		return none, err
	}
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return none, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	own := c.Own(id)
	parts := s.parts.Engine.Limits().Reserved(own)
	if s.parts.Node != "" && !whole(parts) {
		var err error
		parts, err = s.awaitParts(ctx, own)
		switch late := request.As(err); {
		case err == nil:
		case late.Code != api.CodeNotFresh:
			return none, err
		case len(parts) == 0:
			return none, notFound(id, late.Missing)
		}
	}
	if len(parts) == 0 {
		return none, unknownReservation(id)
	}
	if !whole(parts) && open(parts) { // settling some parts alone would leave the others used
		return none, inPart(id)
	}
	made, err := s.parts.Policies.Settle(own, used, debt, nil)
	if err != nil {
		return none, err
	}
	answer := api.SettleAnswer{ID: id, Again: len(made) > 0, Limits: []api.LimitSettled{}}
	missing := ""
	for _, m := range made {
		if !m.Was {
			if s.stillToSettle(parts, m) {
				missing = m.Name
			}
			continue
		}
		answer.Again = answer.Again && m.Again
		answer.Over = max(answer.Over, m.Over)
		answer.Limits = append(answer.Limits, api.LimitSettled{Name: m.Name, Key: m.Key, Reserved: m.Reserved, Used: m.Used, Refunded: m.Freed, Over: m.Over, Remaining: m.Remaining})
	}
	if len(answer.Limits) == 0 {
		return none, unknownReservation(id)
	}
	if missing != "" {
		return none, &api.Error{Code: api.CodeNotHeld, Field: "id", Message: "the rest of reservation " + request.Clip(id) + " is settled, but the node that decides limit " + missing + " here does not know its part: ask the node that reserved"}
	}
	return answer, nil
}

// Commit is Settle with debt of n. If no reservation with the ID is known, as for "", it counts the N of the requests as used instead,
// whatever the limits say. settled tells which.
func (s *Service) Commit(ctx context.Context, c access.Caller, requests []admit.Request, id string, n uint64) (settled bool, err error) {
	may, err := s.enter(c, requests)
	if err != nil {
		return false, err
	}
	if id != "" {
		_, err := s.Settle(ctx, c, id, admit.Used{N: n}, true)
		if err == nil {
			return true, nil
		}
		if e := request.As(err); e.Code != api.CodeUnknownReservation && (e.Code != api.CodeNotHeld || e.Missing == nil) {
			return false, err
		}
	}
	if n == 0 {
		return false, nil
	}
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return false, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	if err := s.parts.Policies.Use(requests, may.Tenant()); err != nil {
		return false, s.undecided(may, err)
	}
	return false, nil
}

// Hold is admit.Live.Hold for a caller that may decide.
func (s *Service) Hold(c access.Caller, r admit.Request, id string, seq uint64, order func(name string, limit engine.Limit) admit.Hold) ([]admit.Changed, error) {
	may, err := s.enter(c, []admit.Request{r})
	if err != nil {
		return nil, err
	}
	if err := s.parts.Pools.Decisions.Enter(c, 1); err != nil {
		return nil, err
	}
	defer s.parts.Pools.Decisions.Leave(c, 1)
	made, err := s.parts.Policies.Hold(r, id, may.Tenant(), seq, order)
	if err != nil {
		return nil, s.undecided(may, err)
	}
	return made, nil
}

// Reported counts decisions of limits that somebody else made, as Hold allowed: as if they had been made here.
func (s *Service) Reported(limits []string, allowed, denied uint64) {
	for _, name := range limits {
		s.decisions.Reported(name, allowed, denied)
		for outcome, n := range map[string]uint64{":allowed": allowed, ":denied": denied} {
			if n > 0 {
				_ = s.parts.Engine.HitN(admit.HitPrefix+name+outcome, n) // a counter that is behind changes nothing else
			}
		}
	}
}

// awaitParts waits for a reservation that another node may have made just now. It returns once all parts are known
// here, or once everything that any node took before is known. While a node is unreachable, the latter fails after
// settleWait. It returns the parts known by then.
func (s *Service) awaitParts(ctx context.Context, id string) ([]engine.ReservedPart, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	awaited := make(chan error, 1)
	go func() {
		_, err := s.parts.Sources.Await(ctx, settleWait)
		awaited <- err
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-awaited:
			parts := s.parts.Engine.Limits().Reserved(id)
			if whole(parts) {
				err = nil
			}
			return parts, err
		case <-look.C:
			if parts := s.parts.Engine.Limits().Reserved(id); whole(parts) {
				return parts, nil
			}
		}
	}
}

// whole reports whether all parts of a reservation are known here.
func whole(parts []engine.ReservedPart) bool {
	return len(parts) > 0 && uint64(len(parts)) >= parts[0].Parts
}

// open reports whether some part is to be settled. Those that were are forgotten one after another.
func open(parts []engine.ReservedPart) bool {
	return slices.ContainsFunc(parts, func(p engine.ReservedPart) bool { return !p.Settled })
}

// inPart is the error for a reservation of which some parts are not known here.
func inPart(id string) error {
	return &api.Error{Code: api.CodeNotHeld, Field: "id", Message: "reservation " + request.Clip(id) + " is known here in part only, as it was made at another node a moment ago, or is given back: ask again in a second"}
}

// stillToSettle reports whether a part that its decider does not know still has to be settled. That is so if its limit
// is in use and this node knows the part as not settled.
func (s *Service) stillToSettle(parts []engine.ReservedPart, m admit.Changed) bool {
	if _, inUse := s.parts.Policies.Limit(m.Name); !inUse && !s.parts.Policies.IsInline(m.Name, m.Key) {
		return false
	}
	return slices.ContainsFunc(parts, func(p engine.ReservedPart) bool { return p.Name == m.Name && p.Key == m.Key && !p.Settled })
}

// notFound is the error for a reservation that is not known here while newer ones of some nodes may be missing.
func notFound(id string, missing []string) error {
	return &api.Error{Code: api.CodeNotHeld, Field: "id", Missing: missing,
		Message: "no reservation " + request.Clip(id) + " is known here, and " + strings.Join(missing, ", ") + " may have made it: ask again, or ask the node that reserved"}
}

func unknownReservation(id string) error {
	return &api.Error{Code: api.CodeUnknownReservation, Field: "id", Message: "no reservation " + request.Clip(id) + " is known: its ttl is over, or the node that made it does not answer"}
}
