package limit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"
)

// coded are the limits that the bytes of states are tried with, of each form.
var coded = []Limit{
	{N: 10, Per: time.Second, Burst: 1},
	{N: 10, Per: time.Second, Burst: 3},
	{N: 16, Per: time.Minute},
	{N: 1, Per: MaxPer, Burst: 100},
	{N: 200, Per: time.Minute},
	{N: 1000, Per: time.Second},
	{N: 1000, Per: time.Second, Algorithm: Fixed},
	{N: 1000, Per: time.Second, Algorithm: GCRA},
}

// Bytes of any kind are an error or a state that works, in bounded memory, and that
// Adopt repairs: nobody is locked out for longer than from a burst of now.
func FuzzDecodeState(f *testing.F) {
	for form, l := range coded {
		p := plan(f, l)
		var s State
		for step := range int64(40) {
			p.Allow(&s, epoch+step*p.interval/30, 1)
		}
		f.Add(uint8(form), p.AppendState(nil, &s))
		wide := plan(f, Limit{N: 900, Per: time.Hour})
		wide.Adopt(&s, p, epoch+p.interval)
		wide.Charge(&s, epoch, 20)
		plan(f, coded[0]).Adopt(&s, wide, epoch)
		p.Adopt(&s, plan(f, coded[0]), epoch)
		f.Add(uint8(form), p.AppendState(nil, &s))
		f.Add(uint8(form), bytes.Repeat([]byte{0xff}, 30))
	}
	f.Fuzz(func(t *testing.T, form uint8, b []byte) {
		p := plan(t, coded[int(form)%len(coded)])
		var s State
		rest, err := p.DecodeState(&s, b)
		if err != nil {
			if s != (State{}) || !bytes.Equal(rest, b) {
				t.Fatalf("%v, but a state of %+v and %d of %d bytes left", err, s, len(rest), len(b))
			}
			return
		}
		if !bytes.HasSuffix(b, rest) || s.Size() > 8*p.most+296 {
			t.Fatalf("rest of %x, size %d", rest, s.Size())
		}
		again := copied(t, p, &s)
		for _, now := range []int64{0, epoch, maxTime} {
			if got, want := p.Peek(again, now, 1), p.Peek(&s, now, 1); got != want {
				t.Fatalf("at %d: %+v after bytes, %+v before", now, got, want)
			}
		}
		repaired(t, p, &s, epoch)
		for step := range int64(50) {
			p.Allow(&s, epoch+step*p.interval/20, 1)
			p.Charge(&s, epoch+step*p.interval/30, 1)
		}
		now := epoch + 3*p.interval
		for _, l := range coded {
			next := plan(t, l)
			next.Adopt(&s, p, now)
			p = next
			next.Take(&s, now, 1)
			copied(t, next, &s)
		}
	})
}

// repaired holds Adopt to its word: no lock-out beyond that of a full burst.
func repaired(t *testing.T, p *Plan, s *State, now int64) {
	t.Helper()
	p.Adopt(s, p, now)
	var burst State
	p.Take(&burst, now, p.limit.Burst)
	if got, most := p.Peek(s, now, 1), p.Peek(&burst, now, 1); got.Reset > most.Reset || got.RetryAfter > most.Reset {
		t.Fatalf("%+v: %+v after Adopt, a full burst has %+v", p.limit, got, most)
	}
	if later := now + int64(p.Peek(s, now, 1).Reset); !p.Allow(copied(t, p, s), later, p.limit.Burst) {
		t.Fatalf("%+v: the burst is denied after its Reset", p.limit)
	}
}

// States of a machine whose clock was ahead, by years too.
func TestAdoptRepairsTheFuture(t *testing.T) {
	for seed := range uint64(600) {
		r := source(seed)
		p := randomPlan(t, r)
		s := new(State)
		ahead := epoch + []int64{1, 0, p.interval / 3, p.interval, int64(MaxPer) * 50}[r.IntN(5)]
		for range 100 {
			p.Allow(s, ahead, randomCount(r, p))
			ahead += max(0, randomStep(r, p)) / 20
		}
		s = copied(t, p, s)
		left := p.Peek(copied(t, p, s), ahead, 0).Remaining
		repaired(t, p, s, epoch)
		if got := p.Peek(s, epoch, 0).Remaining; got > left {
			t.Fatalf("seed %d: %+v: %d left after Adopt, %d before", seed, p.limit, got, left)
		}
	}
}

// A past that is ahead of the clock counts as now.
func TestAdoptRepairsThePast(t *testing.T) {
	for _, l := range []Limit{{N: 10, Per: time.Second}, {N: 10, Per: time.Second, Algorithm: Fixed}, {N: 10, Per: time.Second, Algorithm: GCRA}} {
		p := plan(t, l)
		var s State
		s.pastBegin(reach{interval: p.interval, used: epoch + int64(MaxPer)}, []admissions{{epoch + int64(MaxPer), 4}})
		p.Adopt(&s, p, epoch)
		if v := p.Peek(&s, epoch, 1); v.Remaining != 6 || v.Reset > time.Second {
			t.Errorf("%+v: %+v", l, v)
		}
		if p.Idle(&s, epoch) || !p.Idle(&s, epoch+p.interval) {
			t.Errorf("%+v: idle at once, or not after the interval", l)
		}
	}
}

// A state that has seen nothing later is left as it is.
func TestAdoptOfTheSame(t *testing.T) {
	for seed := range uint64(200) {
		r := source(seed)
		p := randomPlan(t, r)
		var s State
		now := epoch
		for range 60 {
			now = randomTime(r, p, now, false)
			p.Allow(&s, now, randomCount(r, p))
			before := p.AppendState(nil, &s)
			p.Adopt(&s, plan(t, p.limit), now)
			if after := p.AppendState(nil, &s); !bytes.Equal(before, after) {
				t.Fatalf("seed %d: %+v: %x became %x", seed, p.limit, before, after)
			}
		}
	}
}

func TestDecodeStateRefuses(t *testing.T) {
	numbers := func(list ...uint64) (b []byte) {
		for _, n := range list {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	few := Limit{N: 10, Per: time.Second, Burst: 3}
	many := Limit{N: 1000, Per: time.Second}
	fixed := Limit{N: 1000, Per: time.Second, Algorithm: Fixed}
	gcra := Limit{N: 1000, Per: time.Second, Algorithm: GCRA}
	for name, c := range map[string]struct {
		limit Limit
		b     []byte
		want  error
	}{
		"nothing":               {few, nil, errShort},
		"a time is missing":     {few, numbers(2, 5), errShort},
		"more than the burst":   {few, numbers(4, 2, 2, 2, 2), errState},
		"a time too late":       {few, numbers(1, 2*uint64(maxTime)+2), errState},
		"a step too far":        {few, numbers(2, 2, 2*uint64(maxTime)), errState},
		"over 64 bits":          {few, bytes.Repeat([]byte{0xff}, 11), errShort},
		"more than the most":    {many, numbers(183), errState},
		"counts are missing":    {many, numbers(1, 3), errShort},
		"a count over the most": {many, numbers(1, 3, MaxBurst+1), errState},
		"an empty entry":        {many, numbers(1, 3, 0), errState},
		"an interval too late":  {fixed, numbers(math.MaxInt64, 0), errState},
		"used over the most":    {fixed, numbers(1, MaxBurst+1), errState},
		"fixed cut":             {fixed, numbers(1), errShort},
		"newest too late":       {gcra, numbers(math.MaxUint64, 0), errState},
		"too far ahead":         {gcra, numbers(1, 1e9+1), errState},
		"a past too long":       {fixed, numbers(pastMark, 1e9, 1, 0, 18), errState},
		"a past of no reach":    {fixed, numbers(pastMark, 1e9-1, 1, 0, 1, 5, 1, 1, 1), errState},
		"a past of too long":    {fixed, numbers(pastMark, uint64(maxInterval)+1, 1, 0, 1, 5, 1, 1, 1), errState},
		"a past used too late":  {fixed, numbers(pastMark, 1e9, uint64(maxTime)+1, 0, 1, 5, 1, 1, 1), errState},
		"a past with next over": {fixed, numbers(pastMark, 1e9, 1, 1e9+1, 1, 5, 1, 1, 1), errState},
		"a past too late":       {fixed, numbers(pastMark, 1e9, 1, 0, 1, uint64(maxTime)+1, 1, 1, 1), errState},
		"a past of none":        {fixed, numbers(pastMark, 1e9, 1, 0, 1, 5, 0, 1, 1), errState},
		"a past cut":            {fixed, numbers(pastMark, 1e9, 1, 0, 2, 5, 1), errShort},
		"a past and no state":   {fixed, numbers(pastMark, 1e9, 1, 0, 1, 5, 1), errShort},
		"two pasts":             {fixed, numbers(pastMark, 1e9, 1, 0, 1, 5, 1, pastMark, 1e9, 1, 0, 1, 5, 1, 1, 1), errState},
	} {
		s := State{at: 7, used: 7}
		rest, err := plan(t, c.limit).DecodeState(&s, c.b)
		if !errors.Is(err, c.want) || !bytes.Equal(rest, c.b) || s.used != 0 || s.at != 0 {
			t.Errorf("%s: %v, want %v; rest %x, state %+v", name, err, c.want, rest, s)
		}
	}
}
