package history_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/record"
)

// A node that joins a cluster which has grown from one node has nothing of the history from before: it does not say that there
// was none. The node that the cluster has grown from goes on to be exact.
func TestWhoJoinsAGrownClusterSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	old := time.Now().Add(-6 * 365 * 24 * time.Hour).Unix()
	bounds := []int64{old - old%store.DaySeconds, old - old%store.DaySeconds + store.DaySeconds}
	for name, before := range map[string]bool{"joins": false, "was there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, filepath.Join(t.TempDir(), "history.db"))
			if before { // the journal of the node alone
				single := newJournal(t)
				single.id = "alone"
				single.hit(t, "a", time.Now().Unix(), 1)
				single.flush(false)
				w, stop := run(t, s, single, "n1", time.Second)
				await(t, w, single)
				stop()
			}
			j := newJournal(t)
			j.grown = true
			e := record.NewEncoder(record.Incarnation{Origin: 7, Epoch: 1}, j.Partitions())
			e.Restored, e.Leaving = true, true
			e.Begin(time.Now())
			e.AddRestored(0, record.KindEvicted, []byte{1, 1, 1}, 1)
			j.messages = append(j.messages, e.End(nil)...)
			j.hit(t, "a", time.Now().Unix(), 1)
			j.flush(false)
			w, _ := run(t, s, j, "n1", 0)
			await(t, w, j)
			if err := s.View(t.Context(), func(v *store.View) error {
				totals, err := history.Totals(t.Context(), v, "a", bounds, nil, time.Now())
				if err == nil && totals[0].HasUpper() != before {
					t.Errorf("%+v", totals)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
