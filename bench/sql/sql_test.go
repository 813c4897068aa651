package main

import (
	"strings"
	"testing"
	"time"
)

// Every way of the textbook, and the writer of history, counts every hit, with writers side by side, and the page has a row for each.
func TestWaysCountEveryHit(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	d := &database{name: "SQLite", dir: scratch, placed: asIs, upsert: databases("")[2].upsert}
	cfg := settings{scratch: scratch, each: 20 * time.Millisecond, busy: busy()}
	var rows []row
	for _, l := range []load{{1, 64}, {1000, 2}} {
		take := func(r row, err error) { // they compare the tables with what was sent
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
		for _, w := range ways {
			take(textbook(t.Context(), cfg, d, w, l))
		}
		take(byWriter(t.Context(), cfg, d, l))
	}
	page := writePage("here", cfg, rows, time.Second)
	for _, r := range rows {
		if letter, _, _ := strings.Cut(r.way, " "); strings.Count(page, "| "+letter+" |") != 1 { // of the load that the page is about
			t.Errorf("%s is not on the page once", r.way)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	if got := numbered("UPDATE t SET n = ? WHERE k = ?"); got != "UPDATE t SET n = $1 WHERE k = $2" {
		t.Error(got)
	}
}
