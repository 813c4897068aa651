package limits

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/internal/wire"
)

// message asks the holder of a group for some keys, and takes in its answer. of is each check and its
// entry, which is busy with this message, or nil; needs what requests need of it.
func (l *Leased) message(group int, of func(k int) (*weir.Check, *entry), needs []uint64) (a answer, err error) {
	sent, wall := l.side.Now(), time.Now().UnixNano() // before anything of the question is made: grants last from here
	q := question{node: l.cfg.Node, items: make([]item, len(needs))}
	for k := range needs {
		c, e := of(k)
		it := &q.items[k]
		if e == nil {
			it.record, it.key, it.shadow = side.Record(c.Limit), c.Key, c.Shadow
			it.ask.Need = needs[k]
			continue
		}
		it.record, it.key = e.key.record, e.key.key
		it.shadow = c != nil && c.Shadow
		sh := l.shard(e.key.key)
		sh.mu.Lock()
		it.ask = e.Ask(sent, e.terms, needs[k], e.waiting)
		sh.mu.Unlock()
	}
	l.stats.asked.Add(1)
	b, err := l.holder.Ask(group, q.append(nil))
	if err == nil {
		a, err = readAnswer(b, len(q.items))
	}
	if err != nil || a.err != nil {
		return a, err
	}
	now := l.side.Now()
	for k := range needs {
		if _, e := of(k); e != nil {
			sh := l.shard(e.key.key)
			sh.mu.Lock()
			e.wall = wall + int64(e.terms.Life)
			e.Answered(now, sent, e.terms, &q.items[k].ask, &a.grants[k])
			l.noteLent(sh, e)
			sh.mu.Unlock()
		}
	}
	return a, nil
}

// noteLent has the tick look at an entry that has something. The caller holds sh.mu.
func (l *Leased) noteLent(sh *shard, e *entry) {
	if !e.Lent() {
		return
	}
	sh.lent[e] = struct{}{}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// question asks for keys of one group, all or none of what requests need.
type question struct {
	node  string // that asks
	items []item // 1 to weir.MaxChecks
}

// item is one key of one limit.
type item struct {
	record string // of the limit (internal/limits)
	key    string
	shadow bool // its verdict denies nothing
	ask    grant.Ask
}

// answer has for each item what the limit says of its need, and the grant's answer.
type answer struct {
	Answer
	grants []grant.Answer
	err    error // a *weir.Error
}

var errWire = errors.New("could not decode the message: check that all nodes run the same version of Weir")

// append appends a question, numbers as unsigned varints, texts with their length before them:
//
//	node
//	items: how many, then each: record, key, 1 if its verdict denies nothing, then the ask:
//	token, number, used, returned, need, want, demand, uses: how many, then each: n, age in ns
func (q *question) append(b []byte) []byte {
	b = wire.AppendText(b, q.node)
	b = binary.AppendUvarint(b, uint64(len(q.items)))
	for i := range q.items {
		it := &q.items[i]
		b = wire.AppendText(b, it.record)
		b = wire.AppendText(b, it.key)
		b = wire.AppendBool(b, it.shadow)
		a := &it.ask
		for _, v := range []uint64{a.ID.Token, a.ID.Number, a.Used, a.Returned, a.Need, a.Want, a.Demand, uint64(len(a.Uses))} {
			b = binary.AppendUvarint(b, v)
		}
		for _, u := range a.Uses {
			b = binary.AppendUvarint(b, u.N)
			b = binary.AppendUvarint(b, uint64(max(0, u.Age)))
		}
	}
	return b
}

func readQuestion(b []byte) (q question, err error) {
	r := wire.NewReader(b)
	q.node = r.Text(weir.MaxLimitNameBytes)
	count := r.AtMost(weir.MaxChecks)
	if count == 0 || q.node == "" {
		r.Fail()
	}
	for range count {
		it := item{record: r.Text(r.Len()), key: r.Text(weir.MaxKeyBytes), shadow: r.Bool()}
		it.ask = grant.Ask{
			ID: grant.ID{Token: r.Uvarint(), Number: r.Uvarint()}, Used: r.Uvarint(), Returned: r.Uvarint(),
			Need: r.Uvarint(), Want: r.Uvarint(), Demand: r.Uvarint(),
		}
		for range r.AtMost(grant.MaxUses) {
			it.ask.Uses = append(it.ask.Uses, grant.Use{N: r.Uvarint(), Age: readDuration(r)})
		}
		q.items = append(q.items, it)
	}
	return q, done(r)
}

// append appends an answer:
//
//	byte 0     0: decided, or 1: an error
//	           decided: a Answer, then for each item: token, number, granted, used, 1 if its
//	           need was admitted by its own limit + 2 if it got less than it wanted, pause in ns, free,
//	           out, wait and reset in ns
//	           an error: code, field, message
func (a *answer) append(b []byte) []byte {
	if a.err != nil {
		of := &weir.Error{Code: weir.CodeInvalidLimit, Field: "limit", Message: a.err.Error()}
		errors.As(a.err, &of)
		b = wire.AppendText(append(b, 1), string(of.Code))
		return wire.AppendText(wire.AppendText(b, of.Field), of.Message)
	}
	b = a.Append(append(b, 0))
	for i := range a.grants {
		g := &a.grants[i]
		flags := uint64(0)
		if g.Allowed {
			flags |= 1
		}
		if g.Short {
			flags |= 2
		}
		for _, v := range []uint64{
			g.ID.Token, g.ID.Number, g.Granted, g.Used, flags, uint64(g.Pause), g.Free, g.Out, uint64(g.Wait), uint64(g.Reset),
		} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

// readAnswer reads the answer to so many items.
func readAnswer(b []byte, items int) (a answer, err error) {
	r := wire.NewReader(b)
	if r.Bool() {
		a.err = &weir.Error{Code: weir.Code(r.Text(len(b))), Field: r.Text(len(b)), Message: r.Text(len(b))}
		return a, done(r)
	}
	a.Answer = ReadAnswer(r, items)
	for range items {
		g := grant.Answer{ID: grant.ID{Token: r.Uvarint(), Number: r.Uvarint()}, Granted: r.Uvarint(), Used: r.Uvarint()}
		flags := r.Uvarint()
		g.Allowed, g.Short = flags&1 != 0, flags&2 != 0
		g.Pause, g.Free, g.Out, g.Wait, g.Reset = readDuration(r), r.Uvarint(), r.Uvarint(), readDuration(r), readDuration(r)
		a.grants = append(a.grants, g)
	}
	return a, done(r)
}

func readDuration(r *wire.Reader) time.Duration { return time.Duration(r.AtMost(1<<63 - 1)) }

func done(r *wire.Reader) error {
	if !r.Done() {
		return errWire
	}
	return nil
}
