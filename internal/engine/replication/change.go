package replication

import (
	"math"

	"github.com/weir-counter/weir/internal/wire"
)

// Change is one event in what a key has used of a limit, except for the admissions that a cut gathers. The types below are all changes.
//
// A batch of a flush and the state of a partition have them in the same bytes: the kind in a byte, then the fields of the type in
// their order. Numbers are unsigned varints; a text has its length before it.
type Change interface {
	kind() byte
	common() (key *string, at *int64)
	fields(c *wire.Codec)
}

// ChangeOf is what changes of one key have in common.
type ChangeOf struct {
	Name string // that the key's state is kept by
	Key  string
	At   int64 // Unix ms, by the clock of the node that made the change
}

type (
	// Refund gives back N admissions that were taken at At.
	Refund struct {
		ChangeOf
		N uint64
	}

	// Reset forgets what the key has used of the limit, on any node, with its grant and its ban.
	Reset struct{ ChangeOf }

	// ForgetKeys is Reset of all limits of all keys that begin with Key.
	ForgetKeys struct{ ChangeOf }

	// ForgetInline forgets what all keys have used of the inline limits of a name; "" stands for all of them.
	ForgetInline struct{ ChangeOf }

	// Grant gives the key N admissions more than the limit until a time, in place of an earlier grant; 0 takes it back.
	Grant struct {
		ChangeOf
		N     uint64
		Until int64 // Unix ms
	}

	// Spend says that N of the key's grant were used.
	Spend struct {
		ChangeOf
		N uint64
	}

	// Ban denies the key until a time, in place of an earlier ban; 0 lifts it.
	Ban struct {
		ChangeOf
		Until int64 // Unix ms
	}

	// Permit says that a holder has a permit of the key for a time from At on; 0 gives it back.
	Permit struct {
		ChangeOf
		Holder uint64
		For    int64 // ns
	}

	// Reservation is N admissions, taken at At or later, that a Settlement says later how many were used of.
	Reservation struct {
		ChangeOf
		ID      string
		N       uint64
		Until   int64  // Unix ms: it can be settled until then
		Back    bool   // what is not settled until then is given back
		Content uint64 // tells what was asked for apart; 0: it is not looked at
		Parts   uint64 // how many parts, of other limits and keys, the ID has, this one included; 0: not known

		// In the state of a partition, of one that was settled:
		Settled, Lapsed bool // Lapsed: it was given back, as it was not settled in time
		Used, Over      uint64
	}

	// Settlement says how many of a reservation were used, and how many are given back. Over were used beyond it, and denied.
	Settlement struct {
		ChangeOf
		ID               string
		Used, Back, Over uint64
		Forget           bool // the reservation failed in another part: it is not known any more
	}

	// Outstanding says that N of the key's limit count as used for a time from At on: a node has granted them to others as quota
	// leases. It replaces what that node said before.
	Outstanding struct {
		ChangeOf
		Holder string // the node
		N      uint64
		For    int64 // ns
	}

	// Counter is the new value of a counter of Redis commands. It belongs to no limit, and its key may be longer than
	// others.
	Counter struct {
		ChangeOf
		Token  uint64 // of the claim under which it was changed; in a state: the highest of the partition; 0: by a node alone
		Number uint64 // of the change, by the node that made it
		Gone   bool   // there is none: the fields below are not there
		Value  int64
		For    int64     // ms from At on until it expires; 0: it does not
		Log    []float64 // times, in place of a value
	}
)

// changeKinds make an empty change of each kind. Journals keep the numbers.
var changeKinds = [...]func() Change{
	0:  func() Change { return new(Admission) },
	1:  func() Change { return new(Refund) },
	2:  func() Change { return new(Reset) },
	3:  func() Change { return new(ForgetKeys) },
	4:  func() Change { return new(ForgetInline) },
	5:  func() Change { return new(Grant) },
	6:  func() Change { return new(Spend) },
	7:  func() Change { return new(Ban) },
	8:  func() Change { return new(Permit) },
	9:  func() Change { return new(Reservation) },
	10: func() Change { return new(Settlement) },
	11: func() Change { return new(Outstanding) },
	12: func() Change { return new(Counter) },
}

func (*Admission) kind() byte    { return 0 }
func (*Refund) kind() byte       { return 1 }
func (*Reset) kind() byte        { return 2 }
func (*ForgetKeys) kind() byte   { return 3 }
func (*ForgetInline) kind() byte { return 4 }
func (*Grant) kind() byte        { return 5 }
func (*Spend) kind() byte        { return 6 }
func (*Ban) kind() byte          { return 7 }
func (*Permit) kind() byte       { return 8 }
func (*Reservation) kind() byte  { return 9 }
func (*Settlement) kind() byte   { return 10 }
func (*Outstanding) kind() byte  { return 11 }
func (*Counter) kind() byte      { return 12 }

func (a *Admission) common() (key *string, at *int64) { return &a.Key, &a.At }
func (o *ChangeOf) common() (key *string, at *int64)  { return &o.Key, &o.At }

func (a *Admission) fields(c *wire.Codec)   { c.Each(&a.Limit, &a.Key, &a.At, &a.N) }
func (o *ChangeOf) fields(c *wire.Codec)    { c.Each(&o.Name, &o.Key, &o.At) }
func (r *Refund) fields(c *wire.Codec)      { c.Each(&r.Name, &r.Key, &r.At, &r.N) }
func (g *Grant) fields(c *wire.Codec)       { c.Each(&g.Name, &g.Key, &g.At, &g.N, &g.Until) }
func (s *Spend) fields(c *wire.Codec)       { c.Each(&s.Name, &s.Key, &s.At, &s.N) }
func (b *Ban) fields(c *wire.Codec)         { c.Each(&b.Name, &b.Key, &b.At, &b.Until) }
func (p *Permit) fields(c *wire.Codec)      { c.Each(&p.Name, &p.Key, &p.At, &p.Holder, &p.For) }
func (o *Outstanding) fields(c *wire.Codec) { c.Each(&o.Name, &o.Key, &o.At, &o.Holder, &o.N, &o.For) }

func (s *Settlement) fields(c *wire.Codec) {
	c.Each(&s.Name, &s.Key, &s.At, &s.ID, &s.Used, &s.Back, &s.Over, &s.Forget)
}

func (r *Reservation) fields(c *wire.Codec) {
	c.Each(&r.Name, &r.Key, &r.At, &r.ID, &r.N, &r.Until, &r.Back, &r.Content, &r.Parts, &r.Settled)
	if r.Settled {
		c.Each(&r.Lapsed, &r.Used, &r.Over)
	}
}

func (n *Counter) fields(c *wire.Codec) {
	c.Text(&n.Key, maxCounterKey)
	c.Each(&n.At, &n.Token, &n.Number, &n.Gone)
	if n.Gone {
		return
	}
	c.Varint(&n.Value)
	c.Each(&n.For)
	times := uint64(len(n.Log))
	if wire.Number(c, &times, 1<<20); c.Reads() && times > 0 {
		if times > uint64(c.Len()/8) {
			c.Fail()
			return
		}
		n.Log = make([]float64, times)
	}
	for i := range n.Log {
		bits := math.Float64bits(n.Log[i])
		c.Uint64(&bits)
		n.Log[i] = math.Float64frombits(bits)
	}
}

const (
	maxChangeText = 512      // of a name, a limit, a key or an ID
	maxCounterKey = 64 << 10 // of a counter
)

// AppendChange appends the bytes of a change.
func AppendChange(b []byte, one Change) []byte {
	b = append(b, one.kind())
	if n, is := one.(*Counter); is { // there may be many of these, and this call allocates nothing
		c := wire.Writing(b)
		n.fields(&c)
		return c.Bytes()
	}
	return wire.Append(b, one.fields)
}

// ReadChange reads what AppendChange wrote. It fails the reader if that is invalid.
func ReadChange(r *wire.Reader) Change {
	kind := r.Byte()
	if int(kind) >= len(changeKinds) {
		r.Fail()
		return nil
	}
	one := changeKinds[kind]()
	wire.Read(r, one.fields)
	return one
}

// KeyOf is the key that a change is about, or of ForgetKeys how the keys begin.
func KeyOf(one Change) string {
	key, _ := one.common()
	return *key
}

// MoveChanges tells changes by another clock: to says what a time of theirs, in Unix ms, is by it.
func MoveChanges(list []Change, to func(at int64) int64) {
	for _, one := range list {
		_, at := one.common()
		*at = max(0, to(*at))
	}
}
