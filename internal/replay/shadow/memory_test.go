package shadow

import (
	"fmt"
	"strings"
	"testing"
)

// flood is a log of many keys, all of which ask for more than a limit of a few.
func flood(keys int) (log []ask) {
	for round := range 6 {
		for k := range keys {
			log = append(log, ask{at: testStart + int64(round*10), n: 1, keys: []string{fmt.Sprintf("ip:10.%d.%d.%d", k>>16, k>>8&255, k&255), "url:/"}})
		}
	}
	return log
}

// A small budget changes no total, and the report says what is not exact.
func TestMemoryBudget(t *testing.T) {
	text := clf(flood(20_000))
	set := policies(t, "limits: [{name: ip, keys: 'ip:*', limit: 4, per: 1h}]")
	large, err := runOn(t, text, Options{Policies: set})
	if err != nil || len(large.Approximate) > 0 || large.Limits[0].DeniedKeys != 20_000 || large.Limits[0].Needs[0].N != 6 {
		t.Fatalf("%v %+v", err, large)
	}
	small, err := runOn(t, text, Options{Policies: set, Memory: MinMemory})
	if err != nil {
		t.Fatal(err)
	}
	a, b := large.Limits[0], small.Limits[0]
	if a.Requests != b.Requests || a.Denied != b.Denied || a.Allowed != b.Allowed || *a.WorstMinute != *b.WorstMinute {
		t.Errorf("totals: %+v, want %+v", b, a)
	}
	if said := strings.Join(small.Approximate, "\n"); !strings.Contains(said, "keys with few denials may be missing") || !strings.Contains(said, "which limit would have denied fewer is not known") {
		t.Errorf("said %q", said)
	}
	if len(b.Needs) > 0 || b.NeedsUnknown == "" || b.DeniedKeys < a.DeniedKeys {
		t.Errorf("%+v", b)
	}
}

// The heaviest keys stay in the list when the others do not fit.
func TestHeavyKeysStay(t *testing.T) {
	log := flood(20_000)
	for i := range log {
		if i%50 == 0 {
			log[i].keys[0] = "ip:192.0.2.1"
		}
	}
	r, err := runOn(t, clf(log), Options{Policies: policies(t, "limits: [{name: ip, keys: 'ip:*', limit: 4, per: 1h}]"), Memory: MinMemory})
	if err != nil || r.Limits[0].Top[0].Key != "ip:192.0.2.1" || r.Limits[0].Top[0].Denied != 2400-4 || r.Limits[0].Top[0].AtLeast {
		t.Errorf("%v %+v", err, r.Limits[0].Top[0])
	}
}

func TestLedgerStaysWithinBudget(t *testing.T) {
	log := flood(20_000)
	for _, lines := range []int{0, 1, 3000, 6000, 20_000, 41_111, 77_777, len(log)} {
		o := Options{Policies: policies(t, "limits: [{name: ip, keys: 'ip:*', limit: 4, per: 1h}]"), Memory: MinMemory}.withDefaults()
		j, err := newJudge(&o)
		if err != nil {
			t.Fatal(err)
		}
		worker := j.NewWorker()
		for i, a := range log[:lines] {
			if err := worker.Line(a.at, 1, 0, [][]byte{[]byte(a.keys[0])}); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 999 || i == lines-1 {
				if err := j.Take(worker.Part()); err != nil {
					t.Fatal(err)
				}
			}
		}
		j.clerk.close()
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		var real int64
		for _, r := range j.clerk.accounts[0].records {
			real += r.bytes()
		}
		if real != j.clerk.ledger.bytes || real > MinMemory || (lines > 0) != (real > 0) {
			t.Errorf("%d lines: %d bytes, by the ledger %d, budget %d", lines, real, j.clerk.ledger.bytes, MinMemory)
		}
	}
}

// What does not fit in the memory of limits is undecided, and reported.
func TestLimitMemory(t *testing.T) {
	r, err := runOn(t, clf(flood(5_000)), Options{
		Policies: policies(t, "limits: [{name: ip, keys: 'ip:*', limit: 4, per: 1h}]"), LimitMemory: 64 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Limits[0]
	if r.Undecided == 0 || r.Undecided != l.Undecided || r.Allowed+r.Denied+r.Undecided != r.Requests || l.Allowed+l.Denied+l.Undecided != l.Requests {
		t.Errorf("%+v", r)
	}
	if len(r.Approximate) != 1 || !strings.Contains(r.Approximate[0], "could not be decided: the limits in use did not fit in 64KiB; raise --limit-memory") {
		t.Errorf("said %q", r.Approximate)
	}
}
