package limits

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/tracing"
	"github.com/weir-counter/weir/internal/wire"
)

// question is what a node asks the owner of a group: to take what the items need, all or none, to look whether that can be
// taken, or to make a change. It may be asked again.
type question struct {
	node   string        // that asks
	take   bool          // else it takes nothing, and grants nothing
	change engine.Change // of the one item's limit and key, with its need; else NoChange
	items  []item        // 1 to engine.MaxChecks, all of one group
	span   *tracing.Span // of the request that asks
}

// item is one key of one limit.
type item struct {
	record string // of the limit (internal/engine/side)
	key    string
	shadow bool // its verdict denies nothing
	ask    grant.Ask
}

// leases reports whether the node keeps a credit of the key, which the owner may grant to. Else the item has a need alone: the limit is
// strict, or the node keeps too many keys.
func (it *item) leases() bool { return it.ask.ID.Number != 0 }

func itemOf(c *engine.Check, need uint64) item {
	return item{record: c.Limit.Record(), key: c.Key, shadow: c.Shadow, ask: grant.Ask{Need: need}}
}

// changeOf makes the question of a change to a key of a limit. It is one change, whichever owner makes it, and however often
// it is asked for.
func changeOf(node string, c engine.Change, check engine.Check) *question {
	if c.ID == "" {
		c.ID = rand.Text()
	}
	return &question{node: node, change: c, items: []item{itemOf(&check, check.N)}}
}

func (q *question) isChange() bool { return q.change.Kind != engine.NoChange }

// answer has for each item what the limit says of its need, and for an item with a credit the grant's answer.
type answer struct {
	Allowed  bool             // or of a change: there was something
	Verdicts []engine.Verdict // as many as there are items
	changed  engine.Changed   // by a change; Was and After stand in Allowed and Verdicts
	grants   []grant.Answer   // as many as there are items, zero where nothing is granted; nil: of a question that takes nothing
	err      error            // a *engine.Error; else all above
}

// message asks the owner of a group for some keys, and takes in its answer. The entries are busy with this message.
func (l *Limits) message(group int, waiting []pending, take bool, span *tracing.Span) (a answer, err error) {
	sent, wall := l.cfg.Engine.LimitClock(), time.Now().UnixNano() // before anything of the question is made: grants last from here
	q := &question{node: l.cfg.Node, take: take, items: make([]item, len(waiting)), span: span}
	for k := range waiting {
		c, e, it := waiting[k].check, waiting[k].entry, &q.items[k]
		if e == nil {
			*it = itemOf(c, c.N)
			continue
		}
		need := uint64(0)
		if it.record, it.key = e.key.record, e.key.key; c != nil {
			it.shadow, need = c.Shadow, c.N
		}
		sh := l.shard(e.key.key)
		sh.mu.Lock()
		it.ask = e.Ask(sent, e.terms, need, e.waiting)
		if l.closing.Load() {
			it.ask.Want = 0
		}
		sh.mu.Unlock()
	}
	l.stats.asked.Add(1)
	if a, err = l.owners.ask(group, q); err != nil || a.err != nil {
		return a, err
	}
	now := l.cfg.Engine.LimitClock()
	for k := range waiting {
		if e := waiting[k].entry; e != nil {
			sh := l.shard(e.key.key)
			sh.mu.Lock()
			e.wall = wall + int64(e.terms.Life)
			e.Answered(now, sent, e.terms, &q.items[k].ask, &a.grants[k])
			l.noteActive(sh, e)
			sh.mu.Unlock()
		}
	}
	return a, nil
}

// noteActive has the tick look at an entry that has something. The caller holds sh.mu.
func (l *Limits) noteActive(sh *shard, e *entry) {
	if !e.Active() {
		return
	}
	sh.active[e] = struct{}{}
	l.wake.Raise()
}

var errWire = errors.New("could not decode the message: check that all nodes run the same version of Weir")

// wireVersion is the first byte of each question, and of each answer that is not empty.
const wireVersion = 4

// append appends a question: the version and, numbers as unsigned varints, texts with their length before them:
//
//	node
//	0 to ask only, 1 to take, or 1 + the kind of a change, and its time in Unix ns, signed, 0: none,
//	its ID, how many ns ago, its flag, of a reservation and of permits its content and how many parts
//	items: how many, then each: record, key, 1 if its verdict denies nothing, need, number, 0: none, and else:
//	token, used, returned, want, demand, uses: how many, then each: n, age in ns
func (q *question) append(b []byte) []byte {
	b = wire.AppendText(append(b, wireVersion), q.node)
	if c := q.change; c.Kind == engine.NoChange {
		b = wire.AppendBool(b, q.take)
	} else {
		at := int64(0)
		if !c.At.IsZero() {
			at = c.At.UnixNano()
		}
		b = binary.AppendVarint(append(b, 1+byte(c.Kind)), at)
		b = binary.AppendUvarint(wire.AppendText(b, c.ID), uint64(c.Ago))
		if b = wire.AppendBool(b, c.Flag); c.Kind.HasContent() {
			b = binary.AppendUvarint(binary.AppendUvarint(b, c.Content), c.Parts)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(q.items)))
	for i := range q.items {
		it := &q.items[i]
		b = wire.AppendText(b, it.record)
		b = wire.AppendText(b, it.key)
		b = wire.AppendBool(b, it.shadow)
		a := &it.ask
		b = binary.AppendUvarint(binary.AppendUvarint(b, a.Need), a.ID.Number)
		if !it.leases() {
			continue
		}
		for _, v := range []uint64{a.ID.Token, a.Used, a.Returned, a.Want, a.Demand, uint64(len(a.Uses))} {
			b = binary.AppendUvarint(b, v)
		}
		for _, u := range a.Uses {
			b = binary.AppendUvarint(b, u.N)
			b = binary.AppendUvarint(b, uint64(max(0, u.Age)))
		}
	}
	return b
}

func readQuestion(b []byte) (*question, error) {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return nil, errWire
	}
	q := &question{node: r.Text(engine.MaxLimitNameBytes)}
	switch what := r.Byte(); {
	case what > byte(engine.ChangeKinds):
		r.Fail()
	case what > 1:
		q.change = readChange(r, engine.ChangeKind(what-1))
	default:
		q.take = what == 1
	}
	count := r.AtMost(engine.MaxChecks)
	if count == 0 || q.node == "" || q.isChange() && count > 1 {
		r.Fail()
	}
	for range count {
		it := item{record: r.Text(r.Len()), key: r.Text(engine.MaxKeyBytes), shadow: r.Bool()}
		it.ask.Need, it.ask.ID.Number = r.Uvarint(), r.Uvarint()
		if it.leases() {
			it.ask.ID.Token, it.ask.Used, it.ask.Returned, it.ask.Want, it.ask.Demand = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
			for range r.AtMost(grant.MaxUses) {
				it.ask.Uses = append(it.ask.Uses, grant.Use{N: r.Uvarint(), Age: readDuration(r)})
			}
		}
		q.items = append(q.items, it)
	}
	return q, done(r)
}

func readChange(r *wire.Reader, kind engine.ChangeKind) engine.Change {
	c := engine.Change{Kind: kind}
	if at := r.Varint(); at != 0 {
		c.At = time.Unix(0, at)
	}
	c.ID, c.Ago, c.Flag = r.Text(engine.MaxReservationID), readDuration(r), r.Bool()
	if kind.HasContent() {
		c.Content, c.Parts = r.Uvarint(), r.Uvarint()
	}
	return c
}

// append appends the answer to a question: the version and
//
//	0: decided, or 1: an error
//	decided: 1 if allowed, of a change how many were freed, used and over, and 1 if it was made before, then for each item:
//	1 for allowed + 2 for never, remaining, retry after and reset in ns; of an item with a credit, if the question takes:
//	token, number, granted, used, 1 if its need was admitted by its own limit + 2 if it got less than it wanted, pause in ns,
//	free, out, wait and reset in ns
//	an error: code, field, message
func (a *answer) append(b []byte, q *question) []byte {
	b = append(b, wireVersion)
	if a.err != nil {
		failure := &engine.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: a.err.Error()}
		errors.As(a.err, &failure)
		b = wire.AppendText(append(b, 1), string(failure.Code))
		return wire.AppendText(wire.AppendText(b, failure.Field), failure.Message)
	}
	b = wire.AppendBool(append(b, 0), a.Allowed)
	if made := a.changed; q.isChange() {
		b = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, made.Freed), made.Used), made.Over)
		b = wire.AppendBool(b, made.Again)
	}
	for i, v := range a.Verdicts {
		b = append(b, flags(v.Allowed, v.Never))
		b = binary.AppendUvarint(b, v.Remaining)
		b = binary.AppendUvarint(b, uint64(v.RetryAfter))
		b = binary.AppendUvarint(b, uint64(v.Reset))
		if !q.take || !q.items[i].leases() {
			continue
		}
		g := &a.grants[i]
		for _, v := range []uint64{
			g.ID.Token, g.ID.Number, g.Granted, g.Used, uint64(flags(g.Allowed, g.Short)), uint64(g.Pause), g.Free, g.Out, uint64(g.Wait), uint64(g.Reset),
		} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

func flags(one, two bool) (bits byte) {
	if one {
		bits |= 1
	}
	if two {
		bits |= 2
	}
	return bits
}

func readAnswer(b []byte, q *question) (a answer, err error) {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return a, errWire
	}
	if r.Bool() {
		a.err = &engine.Error{Code: api.Code(r.Text(len(b))), Field: r.Text(len(b)), Message: r.Text(len(b))}
		return a, done(r)
	}
	if a.Allowed = r.Bool(); q.isChange() {
		a.changed = engine.Changed{Freed: r.Uvarint(), Used: r.Uvarint(), Over: r.Uvarint(), Again: r.Bool()}
	}
	a.Verdicts = make([]engine.Verdict, len(q.items))
	if q.take {
		a.grants = make([]grant.Answer, len(q.items))
	}
	for i := range q.items {
		bits := r.Byte()
		a.Verdicts[i] = engine.Verdict{Allowed: bits&1 != 0, Never: bits&2 != 0, Remaining: r.Uvarint(), RetryAfter: readDuration(r), Reset: readDuration(r)}
		if !q.take || !q.items[i].leases() {
			continue
		}
		g := grant.Answer{ID: grant.ID{Token: r.Uvarint(), Number: r.Uvarint()}, Granted: r.Uvarint(), Used: r.Uvarint()}
		bits = byte(r.AtMost(3))
		g.Allowed, g.Short = bits&1 != 0, bits&2 != 0
		g.Pause, g.Free, g.Out, g.Wait, g.Reset = readDuration(r), r.Uvarint(), r.Uvarint(), readDuration(r), readDuration(r)
		a.grants[i] = g
	}
	return a, done(r)
}

// readDuration reads ns, as many as there may be.
func readDuration(r *wire.Reader) time.Duration { return time.Duration(r.AtMost(1<<63 - 1)) }

func done(r *wire.Reader) error {
	if !r.Done() {
		return errWire
	}
	return nil
}
