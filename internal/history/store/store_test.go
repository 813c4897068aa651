package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history/store"
)

// testStore is what holds of every database; fresh makes an empty one.
func testStore(t *testing.T, fresh func(t *testing.T) *store.Store) {
	for name, test := range map[string]func(*testing.T, *store.Store){
		"top":             testTop,
		"sums":            testSums,
		"adds up":         testAddsUp,
		"brute force":     testBruteForce,
		"one writer":      testOneWriter,
		"keys":            testKeys,
		"removes":         testRemoves,
		"expires":         testExpires,
		"is bounded":      testIsBounded,
		"migrates again":  testMigratesAgain,
		"lasting numbers": testPosition,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

const day = store.DaySeconds

func claim(t *testing.T, s *store.Store, holder string) store.Lease {
	t.Helper()
	l, err := s.Claim(t.Context(), "j1", holder, 0, time.Minute, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func commit(t *testing.T, s *store.Store, l *store.Lease, b store.Batch) {
	t.Helper()
	if b.Message == 0 {
		b.Message = l.Message + 1
	}
	b.UpTo = b.Message
	if err := s.Commit(t.Context(), l, &b); err != nil {
		t.Fatal(err)
	}
}

// slots are the sums of a key's slots.
func slots(t *testing.T, s *store.Store, key string, from, to int64) map[int64]uint64 {
	t.Helper()
	got := map[int64]uint64{}
	if err := s.View(t.Context(), func(v *store.View) error {
		return v.Slots(t.Context(), key, from, to, func(r store.Row) { got[r.Slot] += r.N })
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func days(t *testing.T, s *store.Store, key string, from, to int64) map[int64]uint64 {
	t.Helper()
	got := map[int64]uint64{}
	if err := s.View(t.Context(), func(v *store.View) error {
		return v.Days(t.Context(), key, from, to, func(r store.Row) { got[r.Day()] += r.N })
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func testAddsUp(t *testing.T, s *store.Store) {
	l := claim(t, s, "a")
	commit(t, s, &l, store.Batch{Rows: []store.Row{{Key: "k", Slot: 10 * day, N: 3}, {Key: "k", Slot: 10*day + 3600, N: 4}, {Key: "other", Slot: 10 * day, N: 9}}})
	commit(t, s, &l, store.Batch{Rows: []store.Row{{Key: "k", Slot: 10 * day, N: 5}}})
	if got := slots(t, s, "k", 10*day, 11*day); len(got) != 2 || got[10*day] != 8 || got[10*day+3600] != 4 {
		t.Fatal(got)
	}
	if err := s.Roll(t.Context(), &l, 11); err != nil {
		t.Fatal(err)
	}
	if l.Rolled != 11 {
		t.Fatal("rolled up to", l.Rolled)
	}
	commit(t, s, &l, store.Batch{Rows: []store.Row{{Key: "k", Slot: 10*day + 3600, N: 100}, {Key: "k", Slot: 10*day + 7200, N: 1000}, {Key: "k", Slot: 12 * day, N: 1}}})
	if got := days(t, s, "k", 0, 20); len(got) != 1 || got[10] != 1112 {
		t.Fatal(got)
	}
	again := claim(t, s, "a")
	if again.Rolled != 11 || again.Message != 3 || again.Token == l.Token {
		t.Fatalf("%+v", again)
	}
}

// A batch that is written again, as by who did not hear that it was written, changes nothing: the
// position says so, and the rows do.
func testPosition(t *testing.T, s *store.Store) {
	l := claim(t, s, "a")
	before := l
	b := store.Batch{Rows: []store.Row{{Key: "k", Slot: 0, N: 3}}, Position: []byte("here"), Message: 77, AsOf: time.UnixMilli(123456)}
	commit(t, s, &l, b)
	commit(t, s, &before, b)
	if got := slots(t, s, "k", 0, day); got[0] != 3 {
		t.Fatal(got)
	}
	again := claim(t, s, "a")
	if string(again.Position) != "here" || again.Message != 77 || again.AsOf.UnixMilli() != 123456 || again.Slot != time.Hour {
		t.Fatalf("%+v", again)
	}
}

func testBruteForce(t *testing.T, s *store.Store) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := claim(t, s, "a")
	type at struct {
		key  string
		slot int64
	}
	want := map[at]uint64{}
	for round := range int64(20) {
		b, rows := store.Batch{}, map[at]uint64{}
		if rnd.IntN(3) == 0 {
			key := fmt.Sprint("k", rnd.IntN(8))
			b.Remove = append(b.Remove, key)
			for place := range want {
				if place.key == key {
					delete(want, place)
				}
			}
		}
		for range rnd.IntN(1500) {
			rows[at{fmt.Sprint("k", rnd.IntN(8)), (round+rnd.Int64N(5))*day + rnd.Int64N(24)*3600}] += rnd.Uint64N(100) + 1
		}
		for place, n := range rows {
			b.Rows = append(b.Rows, store.Row{Key: place.key, Slot: place.slot, N: n})
			want[place] += n
		}
		commit(t, s, &l, b)
		if rnd.IntN(3) == 0 {
			if err := s.Roll(t.Context(), &l, round); err != nil {
				t.Fatal(err)
			}
		}
	}
	for k := range 8 {
		key := fmt.Sprint("k", k)
		got, perDay := slots(t, s, key, 0, 30*day), days(t, s, key, 0, 30)
		wantDays := map[int64]uint64{}
		for place, n := range want {
			if place.key != key {
				continue
			}
			if got[place.slot] != n {
				t.Fatalf("%s at %d: %d, want %d", key, place.slot, got[place.slot], n)
			}
			delete(got, place.slot)
			if place.slot/day < l.Rolled {
				wantDays[place.slot/day] += n
			}
		}
		if len(got) > 0 || fmt.Sprint(perDay) != fmt.Sprint(wantDays) {
			t.Fatalf("%s: too much: %v; days %v, want %v", key, got, perDay, wantDays)
		}
	}
}

func testOneWriter(t *testing.T, s *store.Store) {
	first := claim(t, s, "a")
	if _, err := s.Claim(t.Context(), "j1", "b", 0, time.Minute, time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Fatal("a lease that is held:", err)
	}
	if err := s.Release(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	second := claim(t, s, "b")
	commit(t, s, &second, store.Batch{Rows: []store.Row{{Key: "k", Slot: 0, N: 1}}})
	err := s.Commit(t.Context(), &first, &store.Batch{Rows: []store.Row{{Key: "k", Slot: 0, N: 50}}, Message: 99, UpTo: 99})
	if !errors.Is(err, store.ErrFenced) {
		t.Fatal("who was overtaken writes:", err)
	}
	if got := slots(t, s, "k", 0, day); got[0] != 1 {
		t.Fatal(got)
	}
	other, err := s.Claim(t.Context(), "j2", "c", 0, time.Minute, 15*time.Minute)
	if err != nil || other.Origin == second.Origin {
		t.Fatal("another journal has rows of its own:", err, other.Origin)
	}
	commit(t, s, &other, store.Batch{Rows: []store.Row{{Key: "k", Slot: 0, N: 7}}})
	if got := slots(t, s, "k", 0, day); got[0] != 8 {
		t.Fatal(got)
	}
}

var oddKeys = []string{"a", "A", "a ", "ä", "a\x00b", "\xff", `\x41`, `\`, "'", "日本", strings.Repeat("k", 512), strings.Repeat("\xfe", 512), "%", "_"}

func testKeys(t *testing.T, s *store.Store) {
	l := claim(t, s, "a")
	b := store.Batch{}
	for i, key := range oddKeys {
		b.Rows = append(b.Rows, store.Row{Key: key, Slot: 0, N: uint64(i + 1)})
	}
	commit(t, s, &l, b)
	if err := s.Roll(t.Context(), &l, 1); err != nil {
		t.Fatal(err)
	}
	for i, key := range oddKeys {
		if got := slots(t, s, key, 0, day); got[0] != uint64(i+1) {
			t.Errorf("%q: %d, want %d", key, got[0], i+1)
		}
		if got := days(t, s, key, 0, 1); got[0] != uint64(i+1) {
			t.Errorf("%q: %d in the day, want %d", key, got[0], i+1)
		}
	}
}

// Rows are kept as long as the longest prefix of their key says, hours and days apart, and those of days
// that are not summed up stay.
func testExpires(t *testing.T, s *store.Store) {
	l := claim(t, s, "a")
	const today = 1200 // days of UTC; a multiple of 30, on which old days are looked for
	keep := []store.Keep{
		{Slots: 10 * day * time.Second, Days: 100 * day * time.Second},
		{Prefix: "user:", Slots: 2 * day * time.Second, Days: 20 * day * time.Second},
		{Prefix: "user:vip", Slots: 50 * day * time.Second},
	}
	names := []string{"url:/", "user:1", "user:vip1", "users", "user9"}
	ages := []int64{1, 5, 30, 60, 150}
	b := store.Batch{}
	for _, key := range names {
		for _, age := range ages {
			b.Rows = append(b.Rows, store.Row{Key: key, Slot: (today - age) * day, N: uint64(age)})
		}
	}
	commit(t, s, &l, b)
	if err := s.Roll(t.Context(), &l, today); err != nil {
		t.Fatal(err)
	}
	if err := s.Expire(t.Context(), &l, keep, time.Unix(today*day, 0)); err != nil {
		t.Fatal(err)
	}
	for _, key := range names {
		hours, whole := int64(10), int64(100)
		switch key {
		case "user:1":
			hours, whole = 2, 20
		case "user:vip1":
			hours, whole = 50, today
		}
		gotHours, gotDays := slots(t, s, key, 0, today*day), days(t, s, key, 0, today)
		for _, age := range ages {
			at := today - age
			if _, is := gotHours[at*day]; is != (age <= hours) {
				t.Errorf("%s, %d days old: its hours are there: %v", key, age, is)
			}
			if _, is := gotDays[at]; is != (age <= whole) {
				t.Errorf("%s, %d days old: its day is there: %v", key, age, is)
			}
		}
	}
}

func testRemoves(t *testing.T, s *store.Store) {
	l := claim(t, s, "a")
	b := store.Batch{}
	names := []string{"user:1", "user:2", "users", "url:/", "user;", "u"}
	for _, key := range names {
		for d := range int64(3) {
			b.Rows = append(b.Rows, store.Row{Key: key, Slot: d * day, N: 1})
		}
	}
	commit(t, s, &l, b)
	if err := s.Roll(t.Context(), &l, 2); err != nil {
		t.Fatal(err)
	}
	left := func(want ...string) {
		t.Helper()
		var got []string
		for _, key := range names {
			hours, whole := slots(t, s, key, 0, 5*day), days(t, s, key, 0, 5)
			if len(hours) > 0 {
				got = append(got, key)
			}
			if (len(hours) == 3) != (len(whole) == 2) {
				t.Errorf("%s: %v and %v", key, hours, whole)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q are left, want %q", got, want)
		}
	}
	if found, err := s.Forget(t.Context(), "u"); err != nil || !found {
		t.Fatal(found, err)
	}
	if found, err := s.Forget(t.Context(), "u"); err != nil || found {
		t.Fatal("forgotten twice:", found, err)
	}
	left("user:1", "user:2", "users", "url:/", "user;")
	keys, err := s.Keys(t.Context(), "user:", "", 10)
	if err != nil || fmt.Sprint(keys) != "[user:1 user:2]" {
		t.Fatal(keys, err)
	}
	if found, err := s.Forget(t.Context(), keys...); err != nil || !found {
		t.Fatal(found, err)
	}
	left("users", "url:/", "user;")
	commit(t, s, &l, store.Batch{Remove: []string{"users"}})
	left("url:/", "user;")
}

func testIsBounded(t *testing.T, s *store.Store) {
	l := claim(t, s, "a")
	for range 3 {
		commit(t, s, &l, store.Batch{Rows: []store.Row{{Key: "k", Slot: 0, N: 1<<64 - 1}, {Key: "k", Slot: 3600, N: 1 << 63}}})
	}
	if err := s.Roll(t.Context(), &l, 1); err != nil {
		t.Fatal(err)
	}
	commit(t, s, &l, store.Batch{Rows: []store.Row{{Key: "k", Slot: 0, N: 1<<64 - 1}}})
	if got := slots(t, s, "k", 0, day); got[0] != 1<<56 || got[3600] != 1<<56 {
		t.Fatal(got)
	}
}

func testMigratesAgain(t *testing.T, s *store.Store) {
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWrongURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "sqlite:", "history.db", "oracle://x", "mysql://u:p@localhost", "postgres://u:secret@localhost:port/db", "mysql://u:se%zzcret@h/db", "mysql://u@h/db?charset=x"} {
		_, err := store.Open(store.Config{URL: url})
		if !errors.Is(err, store.ErrURL) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
