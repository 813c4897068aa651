package replica

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A node of which a start reads the beginning of one flush only, its hello being lost, is
// waited for: nothing is up to date with it.
func TestFreshnessOfAnUnfinishedFlush(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	hits := record.NewEncoder(record.Incarnation{Origin: 2, Epoch: 1}, 1)
	hits.Node, hits.PartBytes = "n2", 1
	hits.Flush = 1 // the hello
	hits.Begin(now.Add(-time.Second))
	hits.Add(0, []replication.Delta{{Key: "a", At: now.Unix(), N: 1}})
	hits.Add(0, []replication.Delta{{Key: "b", At: now.Unix(), N: 1}})
	parts := hits.End(nil)
	if len(parts) < 2 {
		t.Fatalf("%d parts, want some", len(parts))
	}
	r := manyOrigins(t, 1, now)
	delete(r.audit.byOrigin, 2)
	if err := r.audit.Apply(r.to, 1, parts[0]); err != nil {
		t.Fatal(err)
	}
	r.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	r.Hello(now)
	asOf, late := r.Freshness(now.Add(time.Minute))
	if asOf.After(now.Add(-time.Second)) || len(late) != 1 || late[0].Node != "n2" {
		t.Errorf("all is here until %v, late are %+v: want n2, which took hits until %v", asOf, late, now.Add(-time.Second))
	}
}

// A message that is lost may have been the hello of a node that is not known: nothing is up
// to date beyond it, until that node is heard of, or nobody else can be there.
func TestFreshnessAfterALostMessage(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	r := manyOrigins(t, 1, now)
	r.clustered = true
	before := r.audit.progressOf(1).at
	r.skip(now, 1)
	check := func(after time.Duration, want int64, what string) {
		t.Helper()
		own := r.audit.progressOf(1)
		own.at, own.heard = now.Add(after).UnixMilli(), now.Add(after)
		r.Hear(now.Add(after), Heartbeat{record.Incarnation{Origin: 1, Epoch: 1}, "n1", Promised(0), 1, 0, ""})
		if asOf, _ := r.Freshness(now.Add(after)); asOf.UnixMilli() != want {
			t.Errorf("%v after a message was found lost, all is here until %v after it, want %d ms: %s", after, asOf.Sub(now), want-before, what)
		}
	}
	check(time.Second, before, "nobody had the time to be heard of")
	r.Hear(now.Add(time.Second), Heartbeat{record.Incarnation{Origin: 2, Epoch: 1}, "n2", Promised(0), 1, 0, ""})
	check(time.Minute, before, "another was heard of, and is not known")
	l := r.audit.progressOf(2)
	l.node, l.epoch, l.left = "n2", 1, true
	check(time.Hour, now.Add(time.Hour).UnixMilli(), "all are known")
	check(time.Hour+time.Second, now.Add(time.Hour+time.Second).UnixMilli(), "all are known")
}

// A flush whose first parts are before the snapshots is in all of them only if each part
// that comes is: one that is not has hits that are missing.
func TestFlushThatIsInSomeSnapshots(t *testing.T) {
	parts := messages(1, [4]uint64{}, 1, 4) // a batch of one partition in each
	for name, s := range map[string]struct {
		have []int // partitions that have theirs
		want int   // findings
	}{
		"in all":                          {have: []int{0, 1, 2, 3}},
		"in the first that comes alone":   {have: []int{0, 1}, want: 1},
		"in all but the last":             {have: []int{0, 1, 2}, want: 1},
		"not in the first that comes":     {have: []int{0}, want: 1},
		"in none but the last, and found": {have: []int{3}, want: 1},
	} {
		a := NewAuditor(1, 4)
		l := a.progressOf(1)
		l.epoch = 1
		for _, p := range s.have {
			l.positions[p] = record.Position{Epoch: 1, Seq: 1, Total: 10}
		}
		for i, data := range parts[1:] {
			a.message(uint64(i+1), data)
		}
		if len(a.Findings) != s.want {
			t.Errorf("%s: found %v, want %d", name, a.Findings, s.want)
		}
	}
}

// The rest of a flush is waited for from when a process has begun: who has just started can
// not have heard of its origin before.
func TestStartWaitsForUnfinishedFlushes(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	r := manyOrigins(t, 1, now)
	r.audit.Alone = false
	e := record.NewEncoder(record.Incarnation{Origin: 2, Epoch: 1}, 1)
	e.PartBytes = 1
	e.Begin(now.Add(-time.Minute))
	e.Add(0, []replication.Delta{{Key: "a", At: now.Unix(), N: 1}})
	e.Add(0, []replication.Delta{{Key: "b", At: now.Unix(), N: 1}})
	r.audit.message(1, e.End(nil)[0])
	r.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	r.Hello(now)
	for after, want := range map[time.Duration]uint64{time.Second: 0, waitLongest + time.Second: 1} {
		r.audit.now = now.Add(after)
		if from := r.audit.startOf().from; from != want {
			t.Errorf("a snapshot %v after the start begins after message %d, want %d", after, from, want)
		}
	}
}

// A node that is just met and says that its last flush is old is late since then: all that
// it took since is missing.
func TestLatenessByTheFirstBeat(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	r := manyOrigins(t, 2, now)
	r.Hear(now, Heartbeat{record.Incarnation{Origin: 1, Epoch: 1}, "n1", Promised(0), 1, 0, ""})
	r.Hear(now, Heartbeat{record.Incarnation{Origin: 2, Epoch: 1}, "n2", Promised(0), 1, 10 * time.Second, ""})
	_, late := r.Freshness(now)
	if len(late) != 1 || late[0].Node != "n2" || late[0].Why != Unwritten || !late[0].Since.Equal(now.Add(-10*time.Second)) {
		t.Errorf("late are %+v, want n2, unwritten for 10 s", late)
	}
}
