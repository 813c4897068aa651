package store

import (
	"errors"
	"path/filepath"
	"testing"
)

// A copy replaces a history only if it has all hits of each key and day: a nearly empty file with fewer gaps does not.
func TestACopyLosesNothing(t *testing.T) {
	t.Parallel()
	open := func(name string, days map[int]int) (*Store, string) {
		path := filepath.Join(t.TempDir(), name)
		s, err := Open(Config{URL: "sqlite:" + path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"INSERT INTO weir_journals (journal, origin, slot, as_of) VALUES ('j', 1, 0, 86400000 * 20003)", "INSERT INTO weir_origins VALUES (1, 'j', 1)"} {
			if _, err := s.writes().ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		for day, n := range days {
			if _, err := s.writes().ExecContext(t.Context(), "INSERT INTO weir_days VALUES ('a', ?, 1, ?, 0, 1)", day, n); err != nil {
				t.Fatal(err)
			}
		}
		return s, path
	}
	own, _ := open("own.db", map[int]int{19_000: 5, 20_000: 7, 20_002: 9}) // the last comes again from the journal
	for name, c := range map[string]struct {
		days  map[int]int
		loses bool
	}{
		"the same":       {map[int]int{19_000: 5, 20_000: 7}, false},
		"more":           {map[int]int{18_000: 1, 19_000: 6, 20_000: 7}, false},
		"a day less":     {map[int]int{20_000: 70}, true},
		"fewer of a day": {map[int]int{19_000: 5, 20_000: 6, 20_001: 1}, true},
		"nothing":        {nil, true},
	} {
		_, path := open("copy.db", c.days)
		conn, err := own.writes().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := losesNothing(t.Context(), conn, path); errors.Is(err, ErrLoses) != c.loses || err != nil && !c.loses {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
	}
}
