package durable

import (
	"fmt"
	"testing"

	"github.com/weir-counter/weir/api"
)

// The partitions of a node that is gone are taken by others also after backups were
// restored, without a snapshot since: a cluster that is idle takes none.
func TestPartitionsAreTakenAfterARestore(t *testing.T) {
	t.Parallel()
	backup := func(step uint64) (file []byte, want map[string]uint64) {
		source := start(t, testConfig(t, t.TempDir()))
		defer source.close()
		want = map[string]uint64{}
		for i := uint64(0); i < 200; i += step {
			key := fmt.Sprint("k", i)
			source.hit(key, 1_000_000, step+i)
			want[key] = step + i
		}
		return source.backup(), want
	}
	first, firsts := backup(2)
	second, seconds := backup(3)
	s := newSharing(t, 3, 1)
	s.start()
	s.hit(100)
	s.settled(1)

	s.nodes[0].restoreInto(first, api.Replace)
	s.want = plus(firsts, nil)
	s.settled(1)
	s.remove("k2")
	s.hit(100)
	s.settled(1)
	s.nodes[1].restoreInto(second, api.Merge)
	s.want = plus(s.want, seconds)
	s.settled(1)
	s.remove("k6")
	s.hit(100)
	s.settled(1)

	s.nodes[2].crash()
	s.nodes[2] = nil
	s.settled(1)
	s.hit(100)
	s.settled(1)
	for i, node := range s.nodes[:2] {
		if st := node.j.Stats(); st.Divergence+st.Holes != 0 {
			t.Errorf("node %d: %+v", i+1, st)
		}
	}
}
