package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// What is held counts as used here, where the journal is followed, and in states, until an interval of the limit after its life.
func TestHold(t *testing.T) {
	t.Parallel()
	elapsed := time.Hour
	table, l := newLimit(t, &elapsed)
	set := func(id string, seq, need, want, wantN, wantShare uint64) {
		t.Helper()
		if n, share, err := l.SetHold("k", Held{ID: id, Seq: seq, Need: need, Want: want, Life: 5 * time.Second}, 0); err != nil || n != wantN || share != wantShare {
			t.Errorf("%s: %d held, a share of %d, %v; want %d, %d", id, n, share, err, wantN, wantShare)
		}
	}
	take := func(l *KeyedLimit, n uint64, allowed bool, left uint64) {
		t.Helper()
		if v, err := l.Peek("k", n); err != nil || v.Allowed != allowed {
			t.Errorf("peek %d: %+v, %v", n, v, err)
		}
		if v, err := l.Take("k", n); err != nil || v.Allowed != allowed || v.Remaining != left {
			t.Errorf("take %d: %+v, %v; %d left", n, v, err, left)
		}
	}
	take(l, 10, true, 90)
	set("a", 1, 0, 40, 40, 40)  // of 90
	set("b", 1, 0, 200, 25, 75) // half of what is free
	set("a", 2, 30, 40, 30, 15) // it has a claim to less, and needs that much still
	set("a", 1, 0, 0, 0, 0)     // an old request
	set("b", 2, 25, 200, 43, 75)
	set("a", 3, 15, 40, 15, 15) // given up
	set("b", 3, 43, 200, 59, 75)
	take(l, 17, false, 16)
	take(l, 16, true, 0)
	if l.Allow("k") {
		t.Error("what is held is admitted")
	}
	var c replication.Cut
	table.Cut(0, &c, nil, nil)
	other, atOther := newLimit(t, &elapsed)
	if err := other.ApplyChanges(0, c.Changes); err != nil {
		t.Fatal(err)
	}
	restored, atRestored := newLimit(t, &elapsed)
	if err := restored.ApplyChanges(0, table.kept(&table.shares[0])); err != nil {
		t.Fatal(err)
	}
	for i, each := range []*Table{other, restored} {
		if err := each.ApplyAdmissions(0, c.Admissions); err != nil {
			t.Fatal(err)
		}
		take([]*KeyedLimit{atOther, atRestored}[i], 1, false, 0)
		if len(outs(each)) != 0 {
			t.Errorf("%d: holds are no grants of nodes: %+v", i, outs(each))
		}
	}
	elapsed += 15 * time.Second
	take(l, 100, true, 0)
	for _, each := range []*Table{table, other, restored} {
		elapsed += 2 * time.Second // who follows may count for longer
		each.Expire(0)
		if len(each.shares[0].held)+len(each.shares[0].outstanding) != 0 {
			t.Errorf("holds that are over are still known: %+v", each.shares[0].held)
		}
	}
}

// Whatever is held, taken, granted and let go in whatever order: what is held and used is never more than the limit and the grant.
func TestHoldsNeverOver(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		elapsed := time.Hour
		table, l := newLimit(t, &elapsed)
		type use struct {
			at time.Duration
			n  uint64
		}
		var uses []use
		type held struct {
			n     uint64
			until time.Duration
		}
		holds := map[string]held{}
		for range 300 {
			elapsed += time.Duration(rng.IntN(1500)) * time.Millisecond
			id := string(rune('a' + rng.IntN(5)))
			switch rng.IntN(3) {
			case 0:
				n, _, err := l.SetHold("k", Held{ID: id, Seq: uint64(elapsed), Need: rng.Uint64N(60), Want: rng.Uint64N(120), Life: 3 * time.Second}, 0)
				if err != nil {
					t.Fatal(err)
				}
				holds[id] = held{n, elapsed + 13*time.Second}
			case 1:
				n := 1 + rng.Uint64N(40)
				if v, err := l.Take("k", n); err != nil {
					t.Fatal(err)
				} else if v.Allowed {
					uses = append(uses, use{elapsed, n})
				}
			case 2:
				n := 1 + rng.Uint64N(40)
				asked, verdicts := []Check{{Limit: l, Key: "k", N: n}}, make([]limit.Verdict, 1)
				if allowed, _, err := table.DecideAll(asked, nil, verdicts, true); err != nil {
					t.Fatal(err)
				} else if allowed {
					uses = append(uses, use{elapsed, n})
				}
			}
			sum := uint64(0)
			for _, u := range uses {
				if u.at > elapsed-10*time.Second {
					sum += u.n
				}
			}
			for _, h := range holds {
				if h.until > elapsed {
					sum += h.n
				}
			}
			if sum > 100 {
				t.Fatalf("seed %d: %d of 100 held and used", seed, sum)
			}
		}
	}
}
