package durable

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// One node of a cluster restores a backup at a time; the others say which.
func TestOneNodeRestoresAtATime(t *testing.T) {
	t.Parallel()
	file, theirs := other(t, engineConfig())
	c := newCluster(t, 3)
	c.start()
	c.nodes[1].restoreInto(file, api.Merge) // makes the bucket of merges while all nodes are here
	refused := func(node int, by string) {
		t.Helper()
		for _, mode := range []api.RestoreMode{api.Merge, api.Replace} {
			transporttest.Eventually(t, "it says who restores: "+by, func() bool { // a replica may not know yet
				_, err := c.nodes[node].j.Restore(t.Context(), bytes.NewReader(file), mode)
				if !errors.Is(err, backup.ErrRestoring) {
					t.Fatalf("node %d: %v", node+1, err)
				}
				return strings.Contains(err.Error(), by)
			})
		}
	}
	claim := func() (claimed context.Context, free func()) {
		t.Helper()
		transporttest.Eventually(t, "node 1 claims it", func() (ok bool) {
			var err error
			claimed, free, err = c.nodes[0].j.restores.Claims.Claim(t.Context())
			return err == nil
		})
		return claimed, free
	}

	claimed, free := claim()
	refused(0, "by this node")
	refused(1, "by node n1")

	// The claim is gone: the restore ends.
	kv, err := c.nodes[1].j.server.JetStream().KeyValue(t.Context(), leaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), backup.RestoreLease); err != nil {
		t.Fatal(err)
	}
	<-claimed.Done()
	if err := context.Cause(claimed); !errors.Is(err, backup.ErrClaimLost) {
		t.Error(err)
	}
	free()

	// A node that crashes over it claims it again as soon as it is back.
	claim()
	c.nodes[0].crash()
	c.nodes[0] = nil
	refused(1, "by node n1")
	c.start()
	_, free = claim()
	free()
	c.nodes[1].restoreInto(file, api.Replace)
	c.agree(theirs)
}
