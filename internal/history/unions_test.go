package history_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/history/store"
)

// visit counts a hit that carries an id.
func (j *journal) visit(t *testing.T, key string, at int64, id uint64) {
	t.Helper()
	expected := j.engine.Keyspace().Expect(nil, []string{key})
	if _, err := j.engine.HitDistinct(time.Unix(at, 0), expected[0], 1, engine.HashID(fmt.Sprint(id))); err != nil {
		t.Fatal(err)
	}
}

func unions(t *testing.T, s *store.Store, key string, bounds ...int64) (ids []api.Distinct) {
	t.Helper()
	if err := s.View(t.Context(), func(v *store.View) (err error) {
		ids, err = history.Unions(t.Context(), v, key, bounds, nil, time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// The different ids of hours, days and months are unions, in each database: exact while they are few, whatever the order of hits
// and whoever writes. It is not parallel, because another test ends the databases.
func TestUnions(t *testing.T) {
	for name, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "history.db"), "postgres": postgres.URL(t), "mariadb": mariadb.URL(t)} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			j := newJournal(t)
			open := func() *store.Store {
				s, err := store.Open(store.Config{URL: url})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			s := open()
			w, stop := run(t, s, j, "a", 0)
			await(t, w, j) // it has the tables
			const days = 70
			type visit struct {
				at int64
				id uint64
			}
			truth := map[string][]visit{}
			for round := range int64(40) {
				for range 100 {
					v := visit{begin + rnd.Int64N((round+1)*days*86400/40), rnd.Uint64N(150)}
					key := []string{"k", "\xff"}[rnd.IntN(2)]
					truth[key] = append(truth[key], v)
					j.visit(t, key, v.at, v.id)
				}
				if round == 20 {
					j.remove(t, "k")
					truth["k"] = nil
				}
				j.flush(false)
				if rnd.IntN(4) == 0 {
					stop()
					w, stop = run(t, open(), j, "a", 0)
				}
			}
			await(t, w, j)
			for _, zone := range []*time.Location{time.UTC, time.FixedZone("", 2*3600)} {
				for _, unit := range []calendar.Unit{calendar.Hour, calendar.Day, calendar.Month} {
					bounds, err := calendar.Bounds(unit, time.Unix(begin, 0), time.Unix(begin+days*86400, 0), zone, 10_000)
					if err != nil {
						t.Fatal(err)
					}
					for key, visits := range truth {
						for i, got := range unions(t, s, key, bounds...) {
							ids := map[uint64]bool{}
							for _, v := range visits {
								if v.at >= bounds[i] && v.at < bounds[i+1] {
									ids[v.id] = true
								}
							}
							if n := uint64(len(ids)); got.Upper == nil || got.Lower != n || got.Estimate != n || *got.Upper != n || got.Error != 0 {
								t.Fatalf("%q, %s at %d of %s: %+v, want %d", key, unit, bounds[i], zone, got, n)
							}
						}
					}
				}
			}
			for id := range uint64(5000) {
				j.visit(t, "many", begin+days*86400+int64(id%7200), id)
			}
			j.flush(false)
			await(t, w, j)
			got := unions(t, s, "many", begin+days*86400, begin+days*86400+3600, begin+(days+1)*86400)
			if got[0].Error != 0.023 || got[0].Estimate < 3350 || got[0].Estimate > 3850 {
				t.Errorf("an hour with 3,600 ids: %+v", got[0])
			}
			if all := unions(t, s, "many", begin, begin+(days+1)*86400)[0]; all.Estimate < 4600 || all.Estimate > 5400 || all.Lower != *all.Upper {
				t.Errorf("%+v of 5,000", all)
			}
			if part := unions(t, s, "k", begin+100, begin+days*86400)[0]; part.Upper == nil || part.Lower > *part.Upper {
				t.Errorf("from within an hour: %+v", part)
			}
			if _, err := s.Forget(t.Context(), "many"); err != nil {
				t.Fatal(err)
			}
			if got := unions(t, s, "many", begin, begin+(days+1)*86400)[0]; got.Estimate != 0 {
				t.Errorf("after its deletion: %+v", got)
			}
		})
	}
}

// A history that begins late has the ids that snapshots know, and no upper bound for the time before.
func TestUnionsOfSnapshots(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for id := range uint64(50) {
		j.visit(t, "k", begin+int64(id)*3600, id)
		j.visit(t, "k", begin+60*3600, id%10) // who was seen before
	}
	j.flush(true)
	j.trim()
	s := openStore(t, filepath.Join(t.TempDir(), "history.db"))
	w, _ := run(t, s, j, "a", 0)
	j.visit(t, "k", time.Now().Unix(), 7)
	j.flush(false)
	await(t, w, j)
	if got := unions(t, s, "k", begin, begin+50*3600, begin+70*3600); got[0].Lower != 40 || got[0].Upper != nil || got[1].Lower != 10 || got[1].Upper != nil {
		t.Errorf("%+v", got)
	}
	hour := time.Now().Unix()/3600*3600 + 2*3600
	if got := unions(t, s, "k", hour, hour+3600)[0]; got.Upper == nil || *got.Upper != 0 {
		t.Errorf("later: %+v", got)
	}
}
