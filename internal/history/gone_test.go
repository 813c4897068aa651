package history_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/history/store"
)

// A file that is removed, or renamed, while it is in use is noticed: history begins anew with what the journal has, and
// what it writes is in the file at its place.
func TestFileThatIsRemovedIsMadeAgain(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	file := filepath.Join(t.TempDir(), "history.db")
	s := openStore(t, file)
	w, stop := run(t, s, j, "n1", 0)
	at := j.now.Unix()
	for range 3 {
		j.hit(t, "a", at, 2)
		j.flush(false)
		await(t, w, j)
		if err := os.Rename(file, file+".moved"); err != nil {
			t.Fatal(err)
		}
		transporttest.Eventually(t, "it is made again", func() bool {
			_, err := os.Stat(file)
			return err == nil
		})
	}
	j.hit(t, "a", at, 1)
	j.flush(false)
	transporttest.Eventually(t, "the file at its place has all", func() bool {
		other, err := store.Open(store.Config{URL: "sqlite:" + file})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		var n uint64
		err = other.View(t.Context(), func(v *store.View) error {
			n = 0
			return v.Slots(t.Context(), "a", at-at%3600, at+3600, func(r store.Row) { n += r.N })
		})
		return err == nil && n == 7
	})
	stop()
}
