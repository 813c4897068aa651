package resp

import (
	"slices"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// beginHits begins a request of hits, whose tally is the session's.
func (s *session) beginHits() error {
	if err := s.enterHits(); err != nil {
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
