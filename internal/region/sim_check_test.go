package region

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// check compares the windows of all nodes with the journals.
func (w *simWorld) check(seed uint64) bool {
	good := true
	fail := func(format string, args ...any) {
		w.t.Errorf("seed %d: %s", seed, fmt.Sprintf(format, args...))
		good = false
	}
	for _, source := range w.regions {
		want, _, _ := source.journal.engine(source.journal.last(), -1)
		for _, r := range w.regions {
			for i, n := range r.nodes {
				if err := n.follow(context.Background()); err != nil {
					fail("%v", err)
				}
				known := n.ledger.Region(source.name)
				if known == nil {
					fail("node %d of %s knows nothing of %s", i, r.name, source.name)
					continue
				}
				if known.Audit.Wrong > 0 {
					fail("node %d of %s: %d batches of %s do not go on", i, r.name, known.Audit.Wrong, source.name)
				}
				if source == r {
					continue
				}
				var got *engine.Engine
				if err := n.views.Read(func(name string, e *engine.Engine) error {
					if name == source.name {
						got = e
					}
					return nil
				}); err != nil || got == nil {
					fail("node %d of %s has no windows of %s, %v", i, r.name, source.name, err)
					continue
				}
				if a, b := contentOf(w, want), contentOf(w, got); a != b {
					fail("node %d of %s counts for %s\n got %s\nwant %s", i, r.name, source.name, b, a)
				}
			}
		}
		_ = want.Close()
	}
	for _, r := range w.regions {
		for _, n := range r.nodes {
			w.tally.bases.Add(int64(countBases(n.ledger)))
			if err := n.views.Close(); err != nil {
				fail("%v", err)
			}
		}
	}
	return good
}

func countBases(l *Ledger) (n int) {
	for _, name := range l.Regions() {
		n += l.Region(name).Bases()
	}
	return n
}

// contentOf is all that an engine has, key by key, by the bytes of its windows.
func contentOf(w *simWorld, e *engine.Engine) string {
	text := ""
	for partition := range simPartitions {
		var cut replication.Cut
		e.Cut(partition, &cut, true)
		s, err := replication.ReadState(cut.State)
		if err != nil {
			w.t.Fatal(err)
		}
		total, _ := s.Total.MarshalBinary()
		text += fmt.Sprintf("partition %d: %x", partition, total)
		slices.SortFunc(s.Keys, func(a, b replication.KeyWindow) int {
			if a.Key < b.Key {
				return -1
			}
			return 1
		})
		for i := range s.Keys {
			window, _ := s.Keys[i].Window.MarshalBinary()
			text += fmt.Sprintf(" %s=%x", s.Keys[i].Key, window)
		}
		slices.SortFunc(s.Distinct, func(a, b replication.KeyDistinct) int { return strings.Compare(a.Key, b.Key) })
		for _, d := range s.Distinct {
			text += fmt.Sprintf(" %s has %x", d.Key, d.Set.Append(nil))
		}
	}
	return text
}
