package limits

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/internal/wire"
)

// This part carries the checks of limits from the node that was asked to one that
// decides, and its verdicts back.

// Question asks another node to take, to peek, or to make a change.
type Question struct {
	Take   bool
	Change side.Change // of the one check's limit and key, with its N; else NoChange
	Checks []Check     // 1 to weir.MaxChecks
}

// Check is a weir.Check with the record of its limit.
type Check struct {
	Limit, Key string
	N          uint64
	Shadow     bool
}

// Answer is what an engine decided.
type Answer struct {
	Allowed  bool           // or for a change: there was something
	Changed  side.Changed   // by a change; Was and After stand in Allowed and Verdicts
	Verdicts []weir.Verdict // as many as the question has checks
}

// Ask makes a question of checks of this node.
func Ask(checks []weir.Check, take bool) Question {
	q := Question{Take: take, Checks: make([]Check, len(checks))}
	for i, c := range checks {
		q.Checks[i] = Check{side.Record(c.Limit), c.Key, c.N, c.Shadow}
	}
	return q
}

// AskChange makes a question of a change to a key of a limit. It may be asked again: it is one change, whoever
// decides it, if he knows the journal.
func AskChange(c side.Change, of weir.Check) Question {
	if c.ID == "" {
		c.ID = rand.Text()
	}
	q := Ask([]weir.Check{of}, false)
	q.Change = c
	return q
}

// Changes tells whether an answer has changed something, that the journal must have; or says that a permit is lost, which
// only an owner that is still one may say.
func (q Question) Changes(a Answer) bool {
	if q.Change.Kind.OfPermit() {
		return a.Allowed || q.Change.Kind == side.RenewPermit
	}
	return q.Change.Kind != side.NoChange || a.Allowed && q.Takes()
}

// Takes tells whether an answer of yes has used anything.
func (q Question) Takes() bool {
	return q.Change.Kind != side.NoChange || q.Take && slices.ContainsFunc(q.Checks, func(c Check) bool { return c.N > 0 })
}

// Decide lets an engine decide. An error is a *weir.Error, or of a record that is none.
func (q Question) Decide(e *weir.Engine) (a Answer, err error) {
	asked := make([]weir.Check, len(q.Checks))
	for i, c := range q.Checks {
		of, err := side.Of(e).LimitOfRecord(c.Limit)
		if err != nil {
			return Answer{}, err
		}
		asked[i] = weir.Check{Limit: of, Key: c.Key, N: c.N, Shadow: c.Shadow}
	}
	a.Verdicts = make([]weir.Verdict, len(asked))
	if q.Change.Kind != side.NoChange {
		made, err := q.Change.MakeOnce(e, asked[0].Limit, asked[0].Key, asked[0].N)
		return Answer{Allowed: made.Was, Changed: made, Verdicts: []weir.Verdict{made.After}}, err
	}
	if q.Take {
		a.Allowed, err = e.TakeAll(asked, a.Verdicts)
	} else {
		a.Allowed, err = e.PeekAll(asked, a.Verdicts)
	}
	return a, err
}

// Made is the answer to a question of a change.
func (a Answer) Made() side.Changed {
	a.Changed.Was, a.Changed.After = a.Allowed, a.Verdicts[0]
	return a.Changed
}

// Append appends a question, numbers as unsigned varints, texts with their length before
// them:
//
//	0 to ask only, 1 to take, or 1 + the kind of a change, and its time in Unix ns, signed, 0: none,
//	its ID, how many ns ago, its flag, of a reservation and of permits its content
//	checks: how many, then each: record of the limit (internal/engine/side), key, n,
//	1 if its verdict denies nothing
func (q Question) Append(b []byte) []byte {
	if c := q.Change; c.Kind == side.NoChange {
		b = wire.AppendBool(b, q.Take)
	} else {
		at := int64(0)
		if !c.At.IsZero() {
			at = c.At.UnixNano()
		}
		b = binary.AppendVarint(append(b, 1+byte(c.Kind)), at)
		b = binary.AppendUvarint(wire.AppendText(b, c.ID), uint64(c.Ago))
		if b = wire.AppendBool(b, c.Flag); c.Kind.HasContent() {
			b = binary.AppendUvarint(b, c.Content)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(q.Checks)))
	for _, c := range q.Checks {
		b = wire.AppendText(b, c.Limit)
		b = wire.AppendText(b, c.Key)
		b = binary.AppendUvarint(b, c.N)
		b = wire.AppendBool(b, c.Shadow)
	}
	return b
}

// ReadQuestion reads what Append wrote.
func ReadQuestion(r *wire.Reader) (q Question) {
	switch what := r.Byte(); {
	case what > byte(side.Kinds):
		r.Fail()
	case what > 1:
		q.Change = readChange(r, side.Kind(what-1))
	default:
		q.Take = what == 1
	}
	count := r.AtMost(weir.MaxChecks)
	if count == 0 || q.Change.Kind != side.NoChange && count > 1 {
		r.Fail()
	}
	for range count {
		q.Checks = append(q.Checks, Check{r.Text(r.Len()), r.Text(weir.MaxKeyBytes), r.Uvarint(), r.Bool()})
	}
	return q
}

func readChange(r *wire.Reader, kind side.Kind) side.Change {
	c := side.Change{Kind: kind}
	if at := r.Varint(); at != 0 {
		c.At = time.Unix(0, at)
	}
	c.ID, c.Ago, c.Flag = r.Text(weir.MaxReservationID), checksReadDuration(r), r.Bool()
	if kind.HasContent() {
		c.Content = r.Uvarint()
	}
	return c
}

// Append appends an answer:
//
//	1 if allowed
//	verdicts: how many, then each: 1 for allowed + 2 for never, remaining, retry after
//	and reset in ns
//
// The first verdict has 4 as well, of a change: it is followed by how many were freed, used and
// over, and 1 if it was made before.
func (a Answer) Append(b []byte) []byte {
	b = wire.AppendBool(b, a.Allowed)
	b = binary.AppendUvarint(b, uint64(len(a.Verdicts)))
	for i, v := range a.Verdicts {
		flags := byte(0)
		made := a.Changed
		if i == 0 && (made.Freed > 0 || made.Used > 0 || made.Over > 0 || made.Again) {
			flags |= 4
		}
		if v.Allowed {
			flags |= 1
		}
		if v.Never {
			flags |= 2
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, v.Remaining)
		b = binary.AppendUvarint(b, uint64(v.RetryAfter))
		b = binary.AppendUvarint(b, uint64(v.Reset))
		if flags&4 != 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, made.Freed), made.Used), made.Over)
			b = wire.AppendBool(b, made.Again)
		}
	}
	return b
}

// ReadAnswer reads the answer to a question of so many checks.
func ReadAnswer(r *wire.Reader, checks int) (a Answer) {
	a.Allowed = r.Bool()
	if count := r.Uvarint(); count != uint64(checks) {
		r.Fail()
		return Answer{}
	}
	a.Verdicts = make([]weir.Verdict, checks)
	for i := range a.Verdicts {
		flags := r.Byte()
		a.Verdicts[i] = weir.Verdict{
			Allowed: flags&1 != 0, Never: flags&2 != 0, Remaining: r.Uvarint(),
			RetryAfter: checksReadDuration(r), Reset: checksReadDuration(r),
		}
		if flags&4 != 0 {
			a.Changed = side.Changed{Freed: r.Uvarint(), Used: r.Uvarint(), Over: r.Uvarint(), Again: r.Bool()}
		}
	}
	return a
}

// checksReadDuration reads ns, as many as there may be.
func checksReadDuration(r *wire.Reader) time.Duration { return time.Duration(r.AtMost(1<<63 - 1)) }
