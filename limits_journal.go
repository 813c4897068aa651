package weir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// Admission is what a batch has of a limit that survives a restart, or that other
// nodes count too: N admissions of a key, none later than At. Limit is the limit
// itself, in bytes that only this package reads: a restart counts admissions before
// anybody has said what the limits are now.
type Admission struct {
	Limit string
	Key   string
	At    int64 // Unix ms, by the clock of who admitted
	N     uint64
}

// freshAdmissions are n, the last of them at the time at.
type freshAdmissions struct {
	n  uint64
	at int64
}

// note adds admissions to the next cut. The caller holds s.mu.
func (s *limitShare) note(st *limitState, n uint64, now int64) {
	if s.fresh == nil {
		s.fresh = map[*limitState]freshAdmissions{}
	}
	of := s.fresh[st]
	s.fresh[st] = freshAdmissions{of.n + n, max(of.at, now)} // whose clock was read first may come second
}

// cut appends the admissions since the cut before. The caller holds s.mu.
func (s *limitShare) cut(list []Admission, clock *limitClock) []Admission {
	list = append(list, s.forgets...)
	s.forgets = nil
	if len(s.fresh) == 0 {
		return list
	}
	const ms = int64(time.Millisecond)
	ahead := clock.ahead()
	for st, of := range s.fresh {
		list = append(list, Admission{st.plan.record, st.key, max(of.at+ahead+ms-1, 0) / ms, of.n})
	}
	clear(s.fresh)
	return list
}

// ApplyAdmissions counts admissions that come from a journal. They are not
// gathered again. Bytes that are no limit's are an error.
func (r *Replication) ApplyAdmissions(partition int, list []Admission) error {
	e := r.engine
	return e.limits.applyAll(partition, list, false)
}

// FollowAdmissions is ApplyAdmissions for those that other nodes decided a moment
// ago, beside this one: what is more than the burst counts as KeyedLimit.Overshoot.
func (r *Replication) FollowAdmissions(partition int, list []Admission) error {
	e := r.engine
	return e.limits.applyAll(partition, list, true)
}

func (ls *limits) applyAll(partition int, list []Admission, beside bool) error {
	for _, a := range list {
		if err := ls.apply(partition, a, beside); err != nil {
			return err
		}
	}
	return nil
}

// strictSlack is how far the clocks of two nodes may differ without a strict limit
// being too generous when another node decides: what it learned of the one before
// counts as so much later, but not later than now.
const strictSlack = time.Second

// apply counts admissions that come from a journal. Memory may be exceeded: what is
// in use is never dropped.
func (ls *limits) apply(partition int, a Admission, beside bool) error {
	plan, err := ls.recorded(a.Limit)
	if err != nil {
		return err
	}
	if plan.forgets != 0 {
		s := &ls.shares[partition]
		s.mu.Lock()
		defer s.mu.Unlock()
		ls.forgetInline(s, plan)
		return nil
	}
	now := ls.clock.now()
	ahead := ls.clock.ahead()
	at := min(a.At, max(now+ahead, 0)/int64(time.Millisecond)+1)*int64(time.Millisecond) - ahead
	if plan.strict {
		at += int64(strictSlack)
	}
	at = min(at, now)
	if now-at >= int64(plan.Interval()) {
		return nil
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away && plan.ofHolders() {
		return nil
	}
	hash := ls.hash(plan.name, a.Key)
	st := s.table.find(hash, plan.name, a.Key)
	if st == nil {
		st = ls.put(s, hash, plan, a.Key)
	} else if st.plan != plan {
		ls.adopt(st, plan, now)
	}
	if beside && !plan.strict {
		if free := plan.Peek(&st.state, at, 0).Remaining; a.N > free {
			plan.name.overshoot.Add(a.N - free)
		}
	}
	before := st.state.Size()
	plan.Charge(&st.state, at, a.N)
	ls.grow(st.plan, int64(st.state.Size()-before))
	return nil
}

// appendTo appends the share's states that survive a restart: by how many ns the time of
// day is ahead of the clock that they are kept by, a signed varint, how many limits they
// have, these, how many states, each as the number of its limit, its key, itself.
// The caller holds s.mu.
func (s *limitShare) appendTo(b []byte, clock *limitClock) []byte {
	b = binary.AppendVarint(b, clock.ahead())
	numbers := map[string]uint64{}
	var records, states []byte
	kept := uint64(0)
	s.table.each(func(st *limitState) {
		if !st.plan.journaled && (st.plan.record == "" || !st.state.HasPast()) { // a past may be of a limit that is
			return
		}
		number, known := numbers[st.plan.record]
		if !known {
			number = uint64(len(numbers))
			numbers[st.plan.record] = number
			records = wire.AppendText(records, st.plan.record)
		}
		states = binary.AppendUvarint(states, number)
		states = wire.AppendText(states, st.key)
		states = wire.AppendText(states, string(st.plan.AppendState(nil, &st.state)))
		kept++
	})
	b = append(binary.AppendUvarint(b, uint64(len(numbers))), records...)
	return append(binary.AppendUvarint(b, kept), states...)
}

// restoredState is a state read from a partition's state.
type restoredState struct {
	record, key string
	encoded     []byte
	ahead       int64 // of the clock that it was kept by: see limitClock
}

// limitStates reads what appendTo wrote.
func (r *stateReader) limitStates() (list []restoredState) {
	ahead := int64(0)
	if r.version > stateNoClock {
		ahead = r.Varint()
	}
	var records []string
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		records = append(records, string(r.Block()))
	}
	for left := r.Uvarint(); left > 0 && !r.Failed(); left-- {
		number, key, encoded := r.Uvarint(), r.Block(), r.Block()
		if number >= uint64(len(records)) {
			r.Fail()
			return nil
		}
		list = append(list, restoredState{records[number], string(key), encoded, ahead})
	}
	return list
}

// restore takes states back into an empty share, all or none; of a partition that is
// not held those that are kept anyway.
func (ls *limits) restore(partition int, list []restoredState) error {
	states, err := ls.decodeStates(list)
	if err != nil {
		return err
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range states {
		if !s.away || !states[i].plan.ofHolders() {
			ls.restoreOne(s, &states[i])
		}
	}
	return nil
}

// restoreOne puts a state in, in place of what is there. The caller holds s.mu.
func (ls *limits) restoreOne(s *limitShare, from *limitState) {
	if from.plan.Idle(&from.state, ls.clock.now()) {
		return
	}
	hash := ls.hash(from.plan.name, from.key)
	st := s.table.find(hash, from.plan.name, from.key)
	if st == nil {
		st = ls.put(s, hash, from.plan, from.key)
	}
	ls.grow(st.plan, -st.bytes())
	st.plan, st.state = from.plan, from.state
	ls.grow(st.plan, st.bytes())
}

func (ls *limits) decodeStates(list []restoredState) ([]limitState, error) {
	now, ahead := ls.clock.now(), ls.clock.ahead()
	states := make([]limitState, len(list))
	for i, l := range list {
		plan, err := ls.recorded(l.record)
		if err != nil {
			return nil, err
		}
		states[i].plan, states[i].key = plan, l.key
		state := &states[i].state
		if rest, err := plan.DecodeState(state, l.encoded); err != nil || len(rest) > 0 {
			return nil, fmt.Errorf("%w: what key %.100q used of limit %s: %w", ErrDamagedState, l.key, plan.name.name, errors.Join(err))
		}
		if by := l.ahead - ahead; by < -int64(time.Second) || by > int64(time.Millisecond) { // else the clock has drifted
			plan.Shift(state, by)
		}
		plan.Adopt(state, plan.Plan, now) // if the clock has run back since: not later than now
	}
	return states, nil
}

// limitRecord is a name and a limit in bytes: length of the name, name, algorithm,
// N, period in ns, burst, and a byte of bits (limits_inline.go) if any is set.
func limitRecord(name string, l Limit, bits byte) string {
	b := wire.AppendText(nil, name)
	for _, v := range []uint64{uint64(l.Algorithm), l.N, uint64(l.Per), l.Burst} {
		b = binary.AppendUvarint(b, v)
	}
	if bits != 0 {
		b = append(b, bits)
	}
	return string(b)
}

// flags are the bits of the plan's record.
func (p *limitPlan) flags() (bits byte) {
	if p.strict {
		bits |= recordStrict
	}
	if p.inline {
		bits |= recordInline
	}
	return bits
}

// recorded reads a limitRecord. Plans of equal records are one.
func (ls *limits) recorded(record string) (*limitPlan, error) {
	ls.mu.Lock()
	plan := ls.records[record]
	ls.mu.Unlock()
	if plan != nil {
		return plan, nil
	}
	r := wire.NewReader([]byte(record))
	name := string(r.Block())
	l := Limit{Algorithm: limit.Algorithm(r.Uvarint()), N: r.Uvarint(), Per: time.Duration(r.Uvarint()), Burst: r.Uvarint()}
	var bits byte
	if r.Len() > 0 {
		bits = r.Byte()
	}
	made, err := limit.New(l)
	if err == nil {
		err = checkKeptName(name)
	}
	if err != nil || r.Failed() || r.Len() > 0 || bits&^byte(recordBits) != 0 {
		return nil, fmt.Errorf("%w: the limit of an admission: %w", ErrDamagedState, errors.Join(err))
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.records) >= maxLimitNames {
		clear(ls.records) // what is in use is soon back
	}
	plan = &limitPlan{Plan: made, name: ls.name(name), journaled: true, record: record,
		strict: bits&recordStrict != 0, inline: bits&recordInline != 0, forgets: bits & (recordForget | recordForgetAll)}
	ls.records[record] = plan
	return plan, nil
}
