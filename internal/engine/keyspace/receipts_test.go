package keyspace

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// A client without receipts is forgotten: names of clients have no bound of their own.
func TestClientsAreForgotten(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	wall := &Wall{Source: func() time.Time { return now }}
	limits := NewClockLimits(wall.Source, nil, wall)
	table := NewReceipts(64<<10, true, &limits)
	for i := range 100 {
		if _, _, err := table.Once(context.Background(), fmt.Sprint("client", i), fmt.Sprint(i), 0, func(*replication.RequestRecorder) []byte { return []byte("x") }); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := table.Once(context.Background(), "silent", "nothing", 0, func(*replication.RequestRecorder) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(table.clients) != 100 {
		t.Errorf("%d clients, want 100", len(table.clients))
	}
	if _, _, err := table.Once(context.Background(), "other", "7", 1, nil); !errors.Is(err, errReceiptReused) {
		t.Errorf("another content: %v", err)
	}
	now = now.Add(ReceiptSeconds * time.Second)
	if s := table.Stats(); s.OnceKeys != 0 || s.OnceBytes != 0 || len(table.clients) != 0 {
		t.Errorf("after ten minutes: %+v, %d clients", s, len(table.clients))
	}
}
