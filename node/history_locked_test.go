package node_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/node"
)

// While another connection locks history.db, the journal keeps durable hits that are older than the retention, however much is
// written: it refuses hits once it is full. When the lock ends all that was acknowledged is in history, and hits are taken again.
func TestLockedHistoryLosesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := historical(t, dir, func(cfg *node.Config) {
		cfg.Journal.MaxBytes, cfg.Journal.SnapshotBytes = 200<<20, 1<<20
		cfg.Service.DurableTimeout = 25 * time.Second
	})
	old := time.Now().AddDate(0, 0, -days)
	send := func(lines string) (refusal string) {
		t.Helper()
		response, err := http.Post("http://"+n.Addr()+"/v1/hits?durable=true", "text/plain", strings.NewReader(lines))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK {
			return string(body)
		}
		return ""
	}
	sent, taken := uint64(0), uint64(0)
	ofThePast := func() (refusal string) {
		t.Helper()
		sent++
		if refusal = send(fmt.Sprintf("a 1 %d", old.Unix())); refusal == "" {
			taken++
		}
		return refusal
	}
	if refusal := ofThePast(); refusal != "" {
		t.Fatal(refusal)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, history.File)+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	refusal := ""
	for round := 0; refusal == "" && round < 2000; round++ {
		if refusal = ofThePast(); refusal != "" {
			break
		}
		var lines strings.Builder
		for k := range 500 {
			fmt.Fprintf(&lines, "%d-%0440d\n", round%3, k)
		}
		refusal = send(lines.String())
	}
	if !strings.Contains(refusal, "older than the retention") {
		t.Errorf("hits are not refused because history is locked: %q", refusal)
	}
	if _, err := db.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "hits are taken again", func() bool { return ofThePast() == "" })
	if got := aligned(t, n, fmt.Sprintf("key=a&align=month&from=%d", old.Unix())).Points[0]; got.Lower < taken || got.Lower > sent || !got.Exact {
		t.Errorf("history has %s, and %d of %d were acknowledged", got.Bounds, taken, sent)
	}

	// An export says that hits may be missing.
	if _, missing := export(t, n, old); missing != "" {
		t.Errorf("hits of %s are missing", missing)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO weir_gaps SELECT journal, 0, ?, ?, 'a test' FROM weir_journals", old.Unix(), old.Unix()+60); err != nil {
		t.Fatal(err)
	}
	if _, missing := export(t, n, old); !strings.HasPrefix(missing, old.UTC().Format(time.RFC3339)) {
		t.Errorf("hits of %q are missing", missing)
	}
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for prefix, keys := range map[string]int{"": 1, "nothing:": 0} { // also where no key is left to say so
		top, err := c.Top(t.Context(), client.TopQuery{Prefix: prefix, N: 5, Align: "day", From: old, To: old.Add(time.Second)})
		if err != nil || len(top.Keys) != keys || !strings.HasPrefix(top.Missing, old.UTC().Format(time.RFC3339)) {
			t.Errorf("top of %q: %+v, %v", prefix, top, err)
		}
	}
}
