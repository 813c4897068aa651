package limits

import (
	"crypto/rand"
	"errors"
	"math"
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
	take   bool          // else it takes and grants nothing
	change engine.Change // of the one item's limit and key, with its need; else NoChange
	items  []item        // 1 to engine.MaxChecks, all in one group
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
	sent, wall := l.cfg.Engine.Limits().Clock.Now(), time.Now().UnixNano() // before anything of the question is made: grants last from here
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
	now := l.cfg.Engine.Limits().Clock.Now()
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

// append appends a question: the version and its fields.
func (q *question) append(b []byte) []byte { return wire.Append(append(b, wireVersion), q.fields) }

func readQuestion(b []byte) (*question, error) {
	q := &question{}
	return q, readMessage(b, q.fields)
}

// readMessage reads the fields of a message after its version.
func readMessage(b []byte, fields func(c *wire.Codec)) error {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return errWire
	}
	wire.Read(r, fields)
	return done(r)
}

// fields are, numbers as unsigned varints, texts with their length before them:
//
//	node
//	0 to ask only, 1 to take, or 1 + the kind of a change, and its time in Unix ns, signed, 0: none,
//	its ID, how many ns ago, its flag, of a reservation and of permits its content and how many parts
//	items: how many, then each: record, key, 1 if its verdict denies nothing, need, number, 0: none, and else:
//	token, used, returned, want, demand, uses: how many, then each: n, age in ns
func (q *question) fields(c *wire.Codec) {
	c.Text(&q.node, engine.MaxLimitNameBytes)
	what := byte(0)
	if q.take || q.isChange() {
		what = 1 + byte(q.change.Kind)
	}
	if c.Byte(&what); what > byte(engine.ChangeKinds) {
		c.Fail()
		return
	}
	if c.Reads() {
		q.take, q.change.Kind = what == 1, engine.ChangeKind(max(what, 1)-1)
	}
	if q.isChange() {
		changeFields(c, &q.change)
	}
	wire.List(c, &q.items, engine.MaxChecks, func(it *item) { it.fields(c) })
	if len(q.items) == 0 || q.node == "" || q.isChange() && len(q.items) > 1 {
		c.Fail()
	}
}

func (it *item) fields(c *wire.Codec) {
	c.Text(&it.record, math.MaxInt32)
	c.Text(&it.key, engine.MaxKeyBytes)
	c.Bool(&it.shadow)
	a := &it.ask
	if c.Uvarints(&a.Need, &a.ID.Number); !it.leases() {
		return
	}
	c.Uvarints(&a.ID.Token, &a.Used, &a.Returned, &a.Want, &a.Demand)
	wire.List(c, &a.Uses, grant.MaxUses, func(u *grant.Use) {
		c.Uvarints(&u.N)
		wire.Number(c, &u.Age, math.MaxInt64)
	})
}

func changeFields(c *wire.Codec, made *engine.Change) {
	at := int64(0)
	if !made.At.IsZero() {
		at = made.At.UnixNano()
	}
	if c.Varint(&at); at != 0 && c.Reads() {
		made.At = time.Unix(0, at)
	}
	c.Text(&made.ID, engine.MaxReservationID)
	wire.Number(c, &made.Ago, math.MaxInt64)
	if c.Bool(&made.Flag); made.Kind.HasContent() {
		c.Uvarints(&made.Content, &made.Parts)
	}
}

// append appends the answer to a question: the version and its fields.
func (a *answer) append(b []byte, q *question) []byte {
	return wire.Append(append(b, wireVersion), func(c *wire.Codec) { a.fields(c, q) })
}

func readAnswer(b []byte, q *question) (a answer, err error) {
	err = readMessage(b, func(c *wire.Codec) { a.fields(c, q) })
	return a, err
}

// fields are
//
//	0: decided, or 1: an error
//	decided: 1 if allowed, of a change how many were freed, used and over, and 1 if it was made before, then for each item:
//	1 for allowed + 2 for never, remaining, retry after and reset in ns; of an item with a credit, if the question takes:
//	token, number, granted, used, 1 if its need was admitted by its own limit + 2 if it got less than it wanted, pause in ns,
//	free, out, wait and reset in ns
//	an error: code, field, message
func (a *answer) fields(c *wire.Codec, q *question) {
	failed := a.err != nil
	if c.Bool(&failed); failed {
		said := &engine.Error{Code: api.CodeInvalidLimit, Field: "limit"}
		if !c.Reads() && !errors.As(a.err, &said) {
			said.Message = a.err.Error()
		}
		code := string(said.Code)
		c.Text(&code, math.MaxInt32)
		c.Text(&said.Field, math.MaxInt32)
		c.Text(&said.Message, math.MaxInt32)
		if c.Reads() {
			said.Code, a.err = api.Code(code), said
		}
		return
	}
	if c.Reads() {
		a.Verdicts = make([]engine.Verdict, len(q.items))
	}
	if c.Reads() && q.take {
		a.grants = make([]grant.Answer, len(q.items))
	}
	if c.Bool(&a.Allowed); q.isChange() {
		c.Uvarints(&a.changed.Freed, &a.changed.Used, &a.changed.Over)
		c.Bool(&a.changed.Again)
	}
	for i := range a.Verdicts {
		v := &a.Verdicts[i]
		c.Flags(&v.Allowed, &v.Never)
		c.Uvarints(&v.Remaining)
		wire.Number(c, &v.RetryAfter, math.MaxInt64)
		if wire.Number(c, &v.Reset, math.MaxInt64); !q.take || !q.items[i].leases() {
			continue
		}
		g := &a.grants[i]
		c.Uvarints(&g.ID.Token, &g.ID.Number, &g.Granted, &g.Used)
		c.Flags(&g.Allowed, &g.Short)
		wire.Number(c, &g.Pause, math.MaxInt64)
		c.Uvarints(&g.Free, &g.Out)
		wire.Number(c, &g.Wait, math.MaxInt64)
		wire.Number(c, &g.Reset, math.MaxInt64)
	}
}

func done(r *wire.Reader) error {
	if !r.Done() {
		return errWire
	}
	return nil
}
