package resp

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// Transactions on counters and hits of one key run while all partitions are cut, with their states at times.
func TestTransactionsWhileCut(t *testing.T) {
	s := newServerOf(t, engine.Config{Gather: true}, Config{CountPrefix: "page:"}, "", nil, admit.Cluster{})
	const sessions, rounds, each = 2, 200, 100
	var ended atomic.Bool
	var cutting, writing sync.WaitGroup
	cutting.Go(func() {
		partition := s.engine.Keyspace().PartitionOf("page:k")
		var c replication.Cut
		for i := 0; !ended.Load(); i++ {
			s.engine.Receipts().Cut(func() { s.engine.Cut(partition, &c, i%100 == 0) })
		}
	})
	t.Cleanup(func() { ended.Store(true) })
	pipeline := strings.Repeat("MULTI\r\nINCR page:k\r\nHIT page:k\r\nPFADD page:k a\r\nEXEC\r\n", each)
	for range sessions {
		c := s.dial()
		if err := c.conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		writing.Go(func() {
			for range rounds {
				if _, err := io.WriteString(c.conn, pipeline); err != nil {
					t.Error(err)
					return
				}
				for range each * 5 {
					if reply, err := readReply(c.in); err != nil || strings.HasPrefix(reply, "-") {
						t.Error(reply, err)
						return
					}
				}
			}
		})
	}
	writing.Wait()
	if ended.Store(true); t.Failed() {
		return // the cuts may hang too
	}
	cutting.Wait()
	s.dial().says("GET page:k -> \"40000\"\n")
}

// A command that the owner does not know has a reply of its own in a pipeline and in a transaction.
func TestUnknownToOwner(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	request := appendRequest(nil, [][]byte{[]byte("INCR"), []byte("a")})
	request = appendRequest(request, [][]byte{[]byte("FUTURE"), []byte("a")})
	request = appendRequest(request, [][]byte{[]byte("GET"), []byte("a")})
	for _, tc := range []struct {
		head byte
		want string
	}{
		{2, ":1\r\n-ERR the node that keeps the counters does not know the command 'FUTURE': run one version on all nodes\r\n$1\r\n1\r\n"},
		{2 | farTransaction, "*3\r\n:2\r\n-ERR the node that keeps the counters does not know the command 'FUTURE': run one version on all nodes\r\n$1\r\n2\r\n"},
	} {
		if got, wrote := s.runFar(append([]byte{tc.head}, request...)); string(got) != tc.want || !wrote {
			t.Errorf("%d: %q", tc.head, got)
		}
	}
}
