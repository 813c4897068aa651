package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

var bad = Faults{Lose: .1, Repeat: .1, Slow: .2, Usual: 5 * time.Millisecond, Slowest: time.Second}

func TestEventsRunInOrder(t *testing.T) {
	w := NewWorld(1)
	var got []int
	for i, d := range []time.Duration{3, 1, 2, 1} {
		w.After(d, func() { got = append(got, i) })
	}
	w.After(5, func() { t.Error("ran before its time") })
	w.Run(4)
	if !slices.Equal(got, []int{1, 3, 2, 0}) || w.Now() != 4 {
		t.Errorf("%v at %v", got, w.Now())
	}
}

// What is lost, repeated and overtaken is about what was asked for, and nothing
// goes where there is no way.
func TestNetwork(t *testing.T) {
	w := NewWorld(2)
	n := NewNetwork(w, bad)
	came := map[int]int{}
	last, overtaken := -1, 0
	for i := range 1000 {
		n.Send("a", "b", func() {
			came[i]++
			if i < last {
				overtaken++
			}
			last = i
		})
		w.Run(time.Millisecond)
	}
	w.Run(time.Minute)
	repeats := 0
	for _, times := range came {
		repeats += times - 1
	}
	if len(came) < 850 || len(came) > 950 || repeats < 50 || repeats > 150 || overtaken < 50 {
		t.Errorf("%d of 1000 came, %d twice, %d overtaken", len(came), repeats, overtaken)
	}
	never := func() { t.Error("came where there is no way") }
	n.Cut("b", "a")
	n.Send("a", "b", never)
	n.Heal()
	n.SetDown("c", true)
	n.Send("a", "c", never)
	n.Send("c", "a", never)
	w.Run(time.Minute)
}

// Acknowledged messages are there, in one order, whoever is asked, once the
// replicas have caught up; nothing is acknowledged without a majority.
func TestLog(t *testing.T) {
	nodes := []string{"a", "b", "c"}
	w := NewWorld(3)
	n := NewNetwork(w, bad)
	l := NewLog(w, n, nodes)
	acked := map[uint64]string{}
	for i := range 300 {
		switch i % 50 {
		case 10:
			n.Cut("a", "b")
		case 20:
			n.SetDown("c", i%100 == 20)
		case 40:
			n.Heal()
			n.SetDown("c", false)
		}
		from, data := nodes[i%3], fmt.Sprint(i)
		l.Publish(from, []byte(data), func(sequence uint64) {
			if was := acked[sequence]; was != "" && was != data {
				t.Fatalf("%d is acknowledged as %s and as %s", sequence, was, data)
			}
			acked[sequence] = data
		})
		w.Run(10 * time.Millisecond)
	}
	n.Heal()
	w.Run(10 * time.Second)
	if len(acked) < 150 {
		t.Errorf("%d of 300 acknowledged", len(acked))
	}
	for sequence, data := range acked {
		for _, node := range nodes {
			if got, err := l.Get(node, sequence); err != nil || string(got) != data {
				t.Fatalf("%s has %q, %v at %d: want %q", node, got, err, sequence, data)
			}
		}
	}
	n.SetDown("b", true)
	n.SetDown("c", true)
	l.Publish("a", []byte("alone"), func(uint64) { t.Error("acknowledged by one of three") })
	w.Run(time.Minute)
	n.SetDown("b", false)
	n.SetDown("c", false)

	l.Lose(5, 3)
	if err := l.Trim("a", 3); err != nil {
		t.Fatal(err)
	}
	if at, _, err := l.Next("a", 1); at != 4 || err != nil {
		t.Errorf("after a trim comes %d, %v", at, err)
	}
	if at, _, err := l.Next("a", 5); at != 6 || err != nil {
		t.Errorf("after a hole comes %d, %v", at, err)
	}
	if _, err := l.Get("a", 5); !errors.Is(err, ErrNoMessage) {
		t.Errorf("a hole gives %v", err)
	}
}

// A register is not replaced by who knows an older one.
func TestRegisters(t *testing.T) {
	w := NewWorld(4)
	n := NewNetwork(w, Faults{Usual: time.Millisecond})
	rs := NewRegisters(NewLog(w, n, []string{"a", "b", "c"}))
	var revisions []uint64
	for _, value := range []string{"x", "y"} {
		rs.Put("a", "name", 0, value, func(revision uint64) { revisions = append(revisions, revision) })
		w.Run(time.Second)
	}
	got, err := rs.Get("b", "name")
	if err != nil || got.Value != "x" || !slices.Equal(revisions, []uint64{1, 0}) {
		t.Errorf("%+v, %v after %v", got, err, revisions)
	}
	rs.Spoil("name", func(value any) any { return value.(string) + "?" })
	rs.Spoil("none", func(any) any { return "z" })
	if got, err := rs.Get("b", "name"); err != nil || got.Value != "x?" || got.Revision != 1 || rs.Look("none") != nil {
		t.Errorf("spoiled: %+v, %v", got, err)
	}
}

// A seed gives the same run each time, another seed another one.
func TestSameSeedSameTrace(t *testing.T) {
	run := func(seed uint64) uint64 {
		w := NewWorld(seed)
		n := NewNetwork(w, bad)
		l := NewLog(w, n, []string{"a", "b", "c"})
		for i := range 100 {
			l.Publish("b", nil, func(sequence uint64) { w.Logf("%d is %d", i, sequence) })
			w.Run(w.Between(1, 20*time.Millisecond))
		}
		return w.Sum()
	}
	if first, again := run(7), run(7); first != again || first == run(8) {
		t.Error("a seed is not the same run, or two seeds are")
	}
}
