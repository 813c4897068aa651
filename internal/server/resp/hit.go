package resp

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// refused returns a rejection as an error; nil if there is none.
func refused(r *request.Rejection) error {
	if r == nil {
		return nil
	}
	return &api.Error{Code: r.Code, Message: r.Message}
}

// hit is HIT. It replies with the number of hits counted.
func (s *session) hit(args [][]byte) error {
	key, n, at := args[1], uint64(1), s.second
	if err := refused(request.CheckHitKey(ArgumentView(key))); err != nil {
		return err
	}
	rest := args[2:]
	if len(rest) > 0 && !ArgumentIs(rest[0], "AT") {
		var wrong *request.Rejection
		if n, wrong = request.ParseCount(ArgumentView(rest[0])); wrong != nil {
			return refused(wrong)
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) == 2 && ArgumentIs(rest[0], "AT"):
		var wrong *request.Rejection
		if at, wrong = request.ParseAt(ArgumentView(rest[1])); wrong != nil {
			return refused(wrong)
		}
	case len(rest) > 0:
		return ErrSyntax
	}
	if err := s.beginHits(); err != nil {
		return err
	}
	t := &s.tally
	t.Line = 1
	if err := s.server.service.Hit(t, at, ArgumentView(key), n); err != nil || t.Counted == 0 {
		return s.notCounted(err)
	}
	s.out.Uint(n)
	return nil
}

// mhit is MHIT. It checks all keys and numbers before it counts anything. It replies with the number of hits counted,
// or with the error PARTIAL if some were not counted.
func (s *session) mhit(args [][]byte) error {
	pairs := args[1:]
	if len(pairs)%2 != 0 {
		return ErrSyntax
	}
	if err := s.server.service.CheckBatch(len(pairs) / 2); err != nil {
		return err
	}
	for i := 0; i < len(pairs); i += 2 {
		if err := refused(request.CheckHitKey(ArgumentView(pairs[i]))); err != nil {
			return err
		}
		if _, wrong := request.ParseCount(ArgumentView(pairs[i+1])); wrong != nil {
			return refused(wrong)
		}
	}
	if err := s.beginHits(); err != nil {
		return err
	}
	t := &s.tally
	var expected [block]engine.Expected
	for i := 0; i < len(pairs); i += 2 {
		if i%(2*block) == 0 {
			s.expect(expected[:0], pairs[i:min(len(pairs), i+2*block)])
		}
		t.Line++
		if t.Refuses() {
			continue
		}
		n, _ := request.ParseCount(ArgumentView(pairs[i+1])) // was read above
		if err := s.server.service.HitExpected(t, s.second, expected[i/2%block], n); err != nil {
			return s.notCounted(err)
		}
	}
	switch {
	case t.Counted == 0:
		return s.notCounted(nil)
	case t.RejectedLines > 0 || t.TooLate > 0:
		_ = s.server.service.Verdict(t, nil) // only for its figures, since something was counted
		text := fmt.Sprintf("%d hits were counted, %d were too late, %d keys were refused", t.Counted, t.TooLate, t.RejectedLines)
		if len(t.Rejected) > 0 {
			first := t.Rejected[0]
			text += fmt.Sprintf("; the first is key %d: %s: %s", first.Line, first.Code, first.Message)
		}
		return NewReplyError("PARTIAL", text)
	}
	s.out.Uint(t.Counted)
	return nil
}

// block is how many keys the engine looks up together.
const block = 64

// expect has the engine look up the keys of up to block pairs. The capacity of expected must suffice.
func (s *session) expect(expected []engine.Expected, pairs [][]byte) {
	var keys [block]string
	for i := 0; i < len(pairs); i += 2 {
		keys[i/2] = ArgumentView(pairs[i])
	}
	s.server.service.Expect(expected, keys[:len(pairs)/2])
}

// notCounted returns why nothing of a request was counted. end is why no further hit can be counted, or nil.
func (s *session) notCounted(end error) error {
	err := s.server.service.Verdict(&s.tally, end)
	if end == nil && len(s.tally.Rejected) > 0 {
		first := s.tally.Rejected[0]
		return &api.Error{Code: first.Code, Message: first.Message}
	}
	return err
}

// bucket takes n from a limit that the request itself defines for a key, all or none. A peek takes and counts nothing.
// Asking for more than the burst is no error: the result is denied and has Never set. The result is valid until the
// next decision of the session.
func (s *session) bucket(key []byte, l admit.Limit, n uint64, peek bool) (*admit.Result, error) {
	if err := refused(request.CheckKey(ArgumentView(key))); err != nil {
		return nil, err
	}
	d := s.inline(key, l, n)
	defer func() { d.NoID = false }()
	err := s.server.service.Allow(s.caller, s.allowing.requests, peek, d)
	if err != nil && (request.As(err).Code != api.CodeInvalidCount || !d.Never) {
		return nil, err
	}
	return &d.Results[0], nil
}

// exhaust takes all n that a bucket has left, and also the fraction of a further one. It reserves n and settles n+1,
// which uses the bucket up.
func (s *session) exhaust(key []byte, l admit.Limit, n uint64) (*admit.Result, error) {
	d := s.inline(key, l, n)
	defer func() { d.NoID = false }()
	id, _, err := s.server.service.Reserve(s.caller, s.allowing.requests, limits.Reservation{TTL: time.Second}, d)
	if err == nil && id != "" {
		_, err = s.server.service.Settle(s.ctx, s.caller, id, admit.Used{N: n + 1}, true)
	}
	if err != nil {
		return nil, err
	}
	return &d.Results[0], nil
}

// inline prepares the session's decision to ask for n of a limit that the request itself defines. The caller must reset
// NoID.
func (s *session) inline(key []byte, l admit.Limit, n uint64) *admit.Decision {
	a := &s.allowing
	a.inline = l
	a.requests = append(a.requests[:0], admit.Request{Key: ArgumentView(key), Inline: &a.inline, N: n})
	a.decision.NoID = true // the replies of CL.THROTTLE and of scripts have no place for an ID
	return &a.decision
}

// beginHits begins a request of hits, whose tally is the session's.
func (s *session) beginHits() error {
	if err := s.enter(s.server.service.Pools.Hits, &s.hits); err != nil {
		return err
	}
	return s.server.service.Ingest(s.caller, &s.tally)
}

// pfAdd is PFADD: each id is a hit that carries it. It replies with 1 if one of them was not seen before. Without ids it
// does nothing, since no key is kept without hits.
func (s *session) pfAdd(args [][]byte) error {
	key, ids := ArgumentView(args[1]), args[2:]
	if err := refused(request.CheckHitKey(key)); err != nil {
		return err
	}
	if err := s.server.service.CheckBatch(len(ids)); err != nil {
		return err
	}
	for _, id := range ids {
		if len(id) > engine.MaxIDBytes {
			return NewReplyError("ERR", "an id is longer than 512 bytes")
		}
	}
	if err := s.beginHits(); err != nil {
		return err
	}
	t, changed := &s.tally, false
	var expected [1]engine.Expected
	for _, id := range ids {
		t.Line++
		hash := engine.HashID(ArgumentView(id))
		isNew := !changed && !s.server.service.KnowsID(key, hash)
		err := s.server.service.HitDistinct(t, s.second, s.server.service.Expect(expected[:0], []string{key})[0], 1, hash)
		if err != nil || t.RejectedLines > 0 || t.Counted == 0 {
			return s.notCounted(err)
		}
		changed = changed || isNew
	}
	s.writeBool(changed)
	return nil
}

// pfCount is PFCOUNT: the ids of all keys together, in a window or all that are kept.
func (s *session) pfCount(args [][]byte) error {
	q := queries.DistinctQuery{}
	names := args[1:]
	if n := len(names); n > 2 && ArgumentIs(names[n-2], "WINDOW") {
		w, err := request.ParseWindow("window", ArgumentView(names[n-1]))
		if err != nil {
			return err
		}
		if w == 0 {
			return &api.Error{Code: api.CodeInvalidWindow, Field: "window", Message: "a window of 0: must be at least 1s; without WINDOW, all ids that are kept count"}
		}
		q.Window, names = w, names[:n-2]
	}
	if len(names) > mostMerged {
		return errMostMerged
	}
	for _, name := range names {
		q.Keys = append(q.Keys, string(name))
	}
	if err := s.enterQuestions(); err != nil {
		return err
	}
	answer, err := s.server.service.Distinct(s.ctx, s.caller, q)
	return s.number(answer.Estimate, err)
}

// mostMerged bounds the keys of one request: each may take a tenth of a millisecond, and a question to another node.
const mostMerged = 1000

var errMostMerged = NewReplyError("ERR", "more than 1000 keys: send fewer at once")

// pfMerge is PFMERGE: the first key gets the ids of the others, as they were seen.
func (s *session) pfMerge(args [][]byte) error {
	var keys []string
	for _, name := range args[1:] {
		keys = append(keys, string(name))
	}
	if err := refused(request.CheckHitKey(keys[0])); err != nil {
		return err
	}
	if len(keys) > mostMerged {
		return errMostMerged
	}
	if err := s.beginHits(); err != nil {
		return err
	}
	from := slices.DeleteFunc(keys[1:], func(key string) bool { return key == keys[0] })
	if len(from) == 0 {
		return s.ok()
	}
	if err := s.enterQuestions(); err != nil {
		return err
	}
	set, err := s.server.service.Union(s.ctx, s.caller, from...)
	if err != nil {
		return err
	}
	if set != nil {
		s.tally.Line = 1
		if err := s.server.service.AddDistinct(&s.tally, keys[0], set); err != nil || s.tally.RejectedLines > 0 {
			return s.notCounted(err)
		}
	}
	return s.ok()
}
