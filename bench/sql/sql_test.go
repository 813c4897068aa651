package main

import (
	"strings"
	"testing"
	"time"
)

// Every way of the textbook counts every hit, with writers side by side, and the page has a row for each.
func TestWaysCountEveryHit(t *testing.T) {
	t.Parallel()
	d := &database{name: "SQLite", dir: t.TempDir(), placed: asIs, upsert: databases("")[2].upsert}
	cfg := settings{each: 20 * time.Millisecond, busy: busy()}
	var rows []row
	for _, w := range ways {
		for _, l := range []load{{1, 8}, {1000, 2}} {
			r, err := textbook(t.Context(), cfg, d, w, l) // it compares the table with what was sent
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
	}
	page := writePage(t.Context(), cfg, rows)
	for _, w := range ways {
		if strings.Count(page, "| "+w.name+" |") != 1 { // of the load that the page is about
			t.Errorf("%s is not on the page once", w.name)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	if got := numbered("UPDATE t SET n = ? WHERE k = ?"); got != "UPDATE t SET n = $1 WHERE k = $2" {
		t.Error(got)
	}
}
