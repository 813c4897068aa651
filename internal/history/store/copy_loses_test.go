package store

import (
	"errors"
	"path/filepath"
	"testing"
)

// A copy replaces a history only if it has all hits of each key and day: a nearly empty file with fewer gaps does not. Hits that come
// again from the journal after the copy's position are not lost, however old they are. Nor are hits that only snapshots had.
func TestACopyLosesNothing(t *testing.T) {
	t.Parallel()
	const former = 17_000 // a day of key b
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
			key := "a"
			if day == former {
				key = "b"
			}
			if _, err := s.writes().ExecContext(t.Context(), "INSERT INTO weir_days VALUES (?, ?, 1, ?, 0, 1)", key, day, n); err != nil {
				t.Fatal(err)
			}
		}
		return s, path
	}
	own, _ := open("own.db", map[int]int{18_999: 4, 19_000: 5, 20_000: 7, 20_002: 9}) // the last comes again from the journal
	for _, q := range []string{
		"UPDATE weir_days SET upto = 8 WHERE day = 18999", // and so does the first, of a copy up to message 7
		"INSERT INTO weir_journals (journal, origin, slot, rolled) VALUES ('former', 2, 0, 20000)", "INSERT INTO weir_origins VALUES (2, 'former', 1)",
		"INSERT INTO weir_days VALUES ('b', 17000, 2, 1, 0, 99)", // the journal does not bring hits of the former one
		"INSERT INTO weir_hours VALUES (20001, 'b', 20001 * 86400, 1, 3, 0, 8)",
		"INSERT INTO weir_origins VALUES (3, 'j', 1)", "INSERT INTO weir_days VALUES ('a', 20000, 3, 1, 0, 1)", // a filling
		"INSERT INTO weir_origins VALUES (4, 'former', 1)", "INSERT INTO weir_days VALUES ('b', 17000, 4, 1, 0, 1)", // and of the former journal
	} {
		if _, err := own.writes().ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		days  map[int]int
		loses bool
	}{
		"the same":                {map[int]int{former: 2, 19_000: 5, 20_000: 7}, false},
		"more":                    {map[int]int{former: 2, 18_000: 1, 19_000: 6, 20_000: 7}, false},
		"a day less":              {map[int]int{former: 2, 20_000: 70}, true},
		"fewer of a day":          {map[int]int{former: 2, 19_000: 5, 20_000: 6, 20_001: 1}, true},
		"less of another filling": {map[int]int{former: 1, 19_000: 5, 20_000: 7}, true},
		"not of another journal":  {map[int]int{19_000: 5, 20_000: 7}, true},
		"nothing":                 {nil, true},
	} {
		_, path := open("copy.db", c.days)
		conn, err := own.writes().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := losesNothing(t.Context(), conn, path, "j", 7); errors.Is(err, ErrLoses) != c.loses || err != nil && !c.loses {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
	}
}
