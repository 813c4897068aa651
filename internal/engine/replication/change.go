package replication

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/weir-counter/weir/internal/wire"
)

// Change is one event in what a key has used of a limit, except for the admissions that a cut gathers. The types below are all changes.
//
// A batch of a flush and the state of a partition have them in the same bytes: the kind in a byte, then the fields of the type in
// their order. Numbers are unsigned varints; a text has its length before it.
type Change interface {
	kind() byte
	of() (key *string, at *int64)
	fields(c *codec)
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

	// Counter is what a counter of Redis commands is at a time, in place of what it was. It is of no limit, and its key may be
	// longer than others.
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

func (a *Admission) of() (key *string, at *int64) { return &a.Key, &a.At }
func (o *ChangeOf) of() (key *string, at *int64)  { return &o.Key, &o.At }

func (a *Admission) fields(c *codec) {
	c.text(&a.Limit, maxLimitBytes)
	c.text(&a.Key, maxChangeKey)
	c.time(&a.At)
	c.number(&a.N)
}

func (o *ChangeOf) fields(c *codec) {
	c.text(&o.Name, maxLimitBytes)
	c.text(&o.Key, maxChangeKey)
	c.time(&o.At)
}

func (r *Refund) fields(c *codec) {
	r.ChangeOf.fields(c)
	c.number(&r.N)
}

func (g *Grant) fields(c *codec) {
	g.ChangeOf.fields(c)
	c.number(&g.N)
	c.time(&g.Until)
}

func (s *Spend) fields(c *codec) {
	s.ChangeOf.fields(c)
	c.number(&s.N)
}

func (b *Ban) fields(c *codec) {
	b.ChangeOf.fields(c)
	c.time(&b.Until)
}

func (p *Permit) fields(c *codec) {
	p.ChangeOf.fields(c)
	c.number(&p.Holder)
	c.time(&p.For)
}

func (r *Reservation) fields(c *codec) {
	r.ChangeOf.fields(c)
	c.text(&r.ID, maxChangeKey)
	c.number(&r.N)
	c.time(&r.Until)
	c.bool(&r.Back)
	c.number(&r.Content)
	c.number(&r.Parts)
	if c.bool(&r.Settled); r.Settled {
		c.bool(&r.Lapsed)
		c.number(&r.Used)
		c.number(&r.Over)
	}
}

func (s *Settlement) fields(c *codec) {
	s.ChangeOf.fields(c)
	c.text(&s.ID, maxChangeKey)
	c.number(&s.Used)
	c.number(&s.Back)
	c.number(&s.Over)
	c.bool(&s.Forget)
}

func (o *Outstanding) fields(c *codec) {
	o.ChangeOf.fields(c)
	c.text(&o.Holder, maxLimitBytes)
	c.number(&o.N)
	c.time(&o.For)
}

func (n *Counter) fields(c *codec) {
	c.text(&n.Key, maxCounterKey)
	c.time(&n.At)
	c.number(&n.Token)
	c.number(&n.Number)
	if c.bool(&n.Gone); n.Gone {
		return
	}
	value := uint64(n.Value)<<1 ^ uint64(n.Value>>63) // as a varint with a sign
	c.number(&value)
	n.Value = int64(value>>1) ^ -int64(value&1)
	c.time(&n.For)
	c.times(&n.Log)
}

const (
	maxLimitBytes = 512      // of a name or a limit
	maxChangeKey  = 512      // of a key or an ID
	maxCounterKey = 64 << 10 // of a counter
)

// codec writes the fields of a change, or reads them.
type codec struct {
	b []byte       // what was written
	r *wire.Reader // nil: it writes
}

func (c *codec) number(v *uint64) {
	if c.r == nil {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	*v = c.r.Uvarint()
}

func (c *codec) time(v *int64) {
	n := uint64(*v)
	if c.number(&n); c.r == nil {
		return
	}
	if *v = int64(n); n > math.MaxInt64 {
		c.r.Fail()
	}
}

func (c *codec) text(v *string, most int) {
	if c.r == nil {
		c.b = wire.AppendText(c.b, *v)
		return
	}
	*v = c.r.Text(most)
}

func (c *codec) bool(v *bool) {
	if c.r == nil {
		c.b = wire.AppendBool(c.b, *v)
		return
	}
	*v = c.r.Bool()
}

// times are a number, and each as 8 bytes of a float64, little endian.
func (c *codec) times(v *[]float64) {
	n := uint64(len(*v))
	if c.number(&n); c.r == nil {
		for _, at := range *v {
			c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(at))
		}
		return
	}
	all := c.r.Bytes(int(min(n, 1<<20)) * 8)
	for ; len(all) > 0; all = all[8:] {
		*v = append(*v, math.Float64frombits(binary.LittleEndian.Uint64(all)))
	}
}

// AppendChange appends the bytes of a change.
func AppendChange(b []byte, one Change) []byte {
	b = append(b, one.kind())
	if n, is := one.(*Counter); is { // there may be many of these, and this call allocates nothing
		c := codec{b: b}
		n.fields(&c)
		return c.b
	}
	c := codec{b: b}
	one.fields(&c)
	return c.b
}

// ReadChange reads what AppendChange wrote. It fails the reader for what is no change.
func ReadChange(r *wire.Reader) Change {
	kind := r.Byte()
	if int(kind) >= len(changeKinds) {
		r.Fail()
		return nil
	}
	one := changeKinds[kind]()
	one.fields(&codec{r: r})
	return one
}

// KeyOf is the key that a change is about, or of ForgetKeys how the keys begin.
func KeyOf(one Change) string {
	key, _ := one.of()
	return *key
}

// MoveChanges tells changes by another clock: to says what a time of theirs, in Unix ms, is by it.
func MoveChanges(list []Change, to func(at int64) int64) {
	for _, one := range list {
		_, at := one.of()
		*at = max(0, to(*at))
	}
}

// Up to flushes of version 5 and states of version 7, a change was an admission of a limit with bits that said that it was none. The
// limit is followed by the bits, and with bitChange by the number of the change and its fields.
const (
	bitForget      = 4
	bitForgetAll   = 8
	bitChange      = 16
	bitOutstanding = 32
)

// ChangeBefore is the change that an admission was that an earlier build wrote; nil: it is of a limit.
func ChangeBefore(a Admission) (Change, error) {
	of, r, bits := readBefore(a)
	switch {
	case r.Failed():
		return nil, ErrDamagedState
	case bits&bitOutstanding != 0:
		return &Outstanding{of.ChangeOf, of.holder, max(a.N, 1) - 1, of.per}, nil
	case bits&bitForgetAll != 0:
		return &ForgetInline{ChangeOf{At: a.At}}, nil
	case bits&bitForget != 0:
		return &ForgetInline{ChangeOf{Name: of.Name, At: a.At}}, nil
	case bits&bitChange == 0:
		return nil, nil
	}
	var made Change
	switch r.Byte() {
	case 1:
		made = &Refund{of.ChangeOf, a.N}
	case 2:
		made = &Reset{of.ChangeOf}
	case 3:
		made = &Grant{of.ChangeOf, r.Uvarint(), int64(r.AtMost(1<<63 - 1))}
	case 4:
		made = &Spend{of.ChangeOf, a.N}
	case 5:
		made = reservationBefore(of.ChangeOf, r, a.N)
	case 6:
		made = &Settlement{ChangeOf: of.ChangeOf, ID: r.Text(maxChangeKey), Used: r.Uvarint(), Back: r.Uvarint()}
	case 7:
		made = &Ban{of.ChangeOf, int64(r.AtMost(1<<63 - 1))}
	case 8:
		made = &Permit{of.ChangeOf, holderBefore(r), int64(r.AtMost(1<<63 - 1))}
	case 9:
		made = &ForgetKeys{ChangeOf{Key: string(r.Bytes(r.Len())), At: a.At}}
	default:
		r.Fail()
	}
	if !r.Done() {
		return nil, fmt.Errorf("%w: a change to limit %.80q", ErrDamagedState, of.Name)
	}
	return made, nil
}

// before is what an admission has that is no limit.
type before struct {
	ChangeOf
	holder string
	per    int64
}

// readBefore reads the limit of an admission up to its bits.
func readBefore(a Admission) (of before, r *wire.Reader, bits byte) {
	r = wire.NewReader([]byte(a.Limit))
	name, holder, _ := strings.Cut(string(r.Block()), "@@")
	of = before{ChangeOf: ChangeOf{name, a.Key, a.At}, holder: holder}
	algorithm := r.Uvarint()
	_, per, _ := r.Uvarint(), r.AtMost(1<<63-1), r.Uvarint()
	of.per = int64(per)
	if algorithm == 16 { // a quota by the calendar
		_, _, _ = r.Byte(), r.Uvarint(), r.Block()
	}
	if r.Len() > 0 {
		bits = r.Byte()
	}
	return of, r, bits
}

func reservationBefore(of ChangeOf, r *wire.Reader, n uint64) *Reservation {
	made := &Reservation{ChangeOf: of, N: n, Until: int64(r.AtMost(1<<63 - 1)), Back: r.Bool(), ID: r.Text(maxChangeKey)}
	if r.Len() > 0 {
		made.Content = r.Uvarint()
	}
	return made
}

func holderBefore(r *wire.Reader) uint64 {
	if b := r.Bytes(8); len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// changesBefore are the changes that what a state has of a limit was; false: it is of a limit.
func changesBefore(l LimitState) (made []Change, was bool, err error) {
	of, r, bits := readBefore(Admission{Limit: l.Record, Key: l.Key})
	if bits&(bitChange|bitOutstanding) == 0 {
		return nil, false, nil
	}
	state := wire.NewReader(l.State)
	switch kind := r.Byte(); {
	case bits&bitOutstanding != 0:
		_, at, n := state.Uvarint(), state.Uvarint(), uint64(1)
		if at&1 == 1 {
			n = state.Uvarint()
		}
		of.At = max(0, (int64(at>>1)+l.Ahead)/1e6)
		return []Change{&Outstanding{of.ChangeOf, of.holder, n - 1, of.per}}, true, doneBefore(state)
	case kind == 3:
		made = append(made, &Grant{of.ChangeOf, state.Uvarint(), int64(state.AtMost(1<<63 - 1))})
	case kind == 5:
		one := reservationBefore(of.ChangeOf, r, state.Uvarint())
		one.At = int64(state.AtMost(1<<63 - 1))
		one.Settled, one.Lapsed, one.Used = state.Bool(), state.Bool(), state.Uvarint()
		made = append(made, one)
	case kind == 7:
		made = append(made, &Ban{of.ChangeOf, int64(state.AtMost(1<<63 - 1))})
	case kind == 8:
		for state.Len() > 0 && !state.Failed() {
			made = append(made, &Permit{of.ChangeOf, holderBefore(state), max(0, state.Varint()+l.Ahead)}) // from 1970 on
		}
	default:
		r.Fail()
	}
	if !r.Done() {
		return nil, true, ErrStateContent
	}
	return made, true, doneBefore(state)
}

func doneBefore(r *wire.Reader) error {
	if !r.Done() {
		return ErrStateContent
	}
	return nil
}
