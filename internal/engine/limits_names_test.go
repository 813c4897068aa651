package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/engine/replication"
)

func TestSnapshotHasWhatAShorterLimitLookedAt(t *testing.T) {
	e, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
	long := mustLimit(t, e, "x", Limit{N: 5, Per: time.Minute})
	short := mustLimit(t, e, "x", Limit{N: 5, Per: time.Second})
	long.AllowN("k", 5)
	short.Peek("k", 1)
	var c replication.Cut
	e.Cut(0, &c, true)
	next, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
	if err := next.LoadState(0, c.State, 0); err != nil {
		t.Fatal(err)
	}
	if v, _ := mustLimit(t, next, "x", Limit{N: 5, Per: time.Minute}).Take("k", 5); v.Allowed {
		t.Error("a fresh allowance after a restart")
	}
}

func TestPeekForgetsNothing(t *testing.T) {
	e, now := limitEngine(t, Config{Partitions: 1})
	long := mustLimit(t, e, "x", Limit{N: 10, Per: time.Hour})
	short := mustLimit(t, e, "x", Limit{N: 10, Per: time.Second})
	total := 0
	for range 10 {
		for long.Allow("k") {
			total++
		}
		now.Add(int64(2 * time.Second))
		short.Peek("k", 1)
	}
	if total > 10 {
		t.Errorf("admitted %d of 10 per hour", total)
	}
}

func TestTakeAllOfOneKeyUnderTwoLimitsOfAName(t *testing.T) {
	e, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
	v := make([]Verdict, 2)
	big := mustLimit(t, e, "x", Limit{N: 100, Per: time.Hour})
	small := mustLimit(t, e, "x", Limit{N: 5, Per: time.Hour})
	if ok, _ := e.Limits().TakeAll([]Check{{Limit: big, Key: "k", N: 50}, {Limit: small, Key: "k", N: 1, Shadow: true}}, v); ok && !v[0].Allowed {
		t.Error("allowed, and check 0 is not: nothing was taken, and 50 are journaled", v)
	}
	minute := mustLimit(t, e, "y", Limit{N: 5, Per: time.Minute})
	second := mustLimit(t, e, "y", Limit{N: 5, Per: time.Second})
	e.Limits().TakeAll([]Check{{Limit: minute, Key: "k", N: 1}, {Limit: second, Key: "k", N: 1}}, v)
	if v[0].Reset < time.Minute {
		t.Errorf("a limit of a minute resets in %v", v[0].Reset)
	}
}

func TestLimitThatCantBeLeavesNothing(t *testing.T) {
	e, _ := limitEngine(t, Config{Partitions: 1})
	kl, err := e.Limit("x", Limit{})
	if err == nil || kl != nil {
		t.Error("a limit without a plan, which panics when used, beside", err)
	}
	if held, _ := e.limits.NamesKept(); held != 0 {
		t.Error("a name is kept for ever of a limit that can't be")
	}
}

func TestPeekNeedsNoSpace(t *testing.T) {
	e, _ := limitEngine(t, Config{Partitions: 1, LimitMemory: 1 << 16})
	kl := mustLimit(t, e, "x", Limit{N: 1, Per: time.Hour})
	for i := range 5000 {
		kl.Take(fmt.Sprint(i), 1)
	}
	if _, err := kl.Peek("new", 1); err != nil {
		t.Error("to ask needs no space:", err)
	}
}

func TestNamesFromAJournalAreNotRefused(t *testing.T) {
	var all []replication.Admission
	for life := range 11 { // each takes its 1000 inline names
		e, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
		for i := range 1000 {
			mustLimit(t, e, fmt.Sprintf("own-%d-%d", life, i), Limit{N: 1, Per: 24 * time.Hour}).Allow("k")
		}
		var c replication.Cut
		e.Cut(0, &c, false)
		all = append(all, c.Admissions...)
	}
	e, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
	if err := e.Limits().ApplyAdmissions(0, all); err != nil {
		t.Fatal(err)
	}
}

// What a limit of a minute admitted survives a restart, though the key was last
// asked for under a limit of a second.
func TestSnapshotHasThePastOfALongerLimit(t *testing.T) {
	e, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
	mustLimit(t, e, "x", Limit{N: 5, Per: time.Minute}).AllowN("k", 5)
	mustLimit(t, e, "x", Limit{N: 50, Per: time.Second}).Allow("k")
	var c replication.Cut
	e.Cut(0, &c, true)
	next, _ := limitEngine(t, Config{Partitions: 1, Gather: true})
	if err := next.LoadState(0, c.State, 0); err != nil {
		t.Fatal(err)
	}
	if mustLimit(t, next, "x", Limit{N: 5, Per: time.Minute}).Allow("k") {
		t.Error("a fresh allowance after a restart")
	}
}

// Names that are released make space for others, unless keys have them in use.
func TestReleasedNamesMakeSpace(t *testing.T) {
	e, now := limitEngine(t, Config{Partitions: 1})
	kept := mustLimit(t, e, "kept", Limit{N: 1, Per: time.Hour})
	used := mustLimit(t, e, "used", Limit{N: 1, Per: time.Hour})
	used.Allow("k")
	used.Release()
	for i := range 3 * admission.MaxNames {
		mustLimit(t, e, fmt.Sprint("n", i), Limit{N: 1, Per: time.Second}).Release()
	}
	if mustLimit(t, e, "used", Limit{N: 1, Per: time.Hour}).Allow("k") {
		t.Error("a name in use was forgotten")
	}
	again := mustLimit(t, e, "kept", Limit{N: 1, Per: time.Hour})
	if !used.InUse() || kept.InUse() {
		t.Error("the wrong names are in use")
	}
	if kept.Allow("k"); !again.InUse() {
		t.Error("a name that is held was forgotten")
	}
	now.Add(int64(2 * time.Hour))
	e.limits.Expire(0)
	if used.InUse() {
		t.Error("in use when all is over")
	}
	held, _ := e.limits.NamesKept()
	for i := range admission.MaxNames - held {
		mustLimit(t, e, fmt.Sprint("held", i), Limit{N: 1, Per: time.Second})
	}
	if _, err := e.Limit("one-more", Limit{N: 1, Per: time.Second}); err == nil {
		t.Error("names without end")
	}
	if _, got := e.limits.NamesKept(); got > 3*admission.MaxNames {
		t.Errorf("%d names are kept", got)
	}
}
