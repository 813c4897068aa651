package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

func TestTopAndKeysAgainstNaive(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock})
	r := rand.New(rand.NewPCG(1, 1))
	lists := map[string]*naive{}
	for range 30_000 {
		key := fmt.Sprintf("%s:%d", []string{"url", "host"}[r.IntN(2)], int(r.ExpFloat64()*100))
		at := 1_000_000 + r.Int64N(3000)
		e.HitAt(unix(at), key, 1)
		if lists[key] == nil {
			lists[key] = new(naive)
		}
		lists[key].add(at, 1)
	}
	now := e.Now()
	for _, prefix := range []string{"", "url:", "host:1", "none"} {
		type ranked struct {
			key  string
			hits uint64
		}
		var want []ranked
		var names []string
		for key, list := range lists {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			names = append(names, key)
			if hits := list.count(now.Unix(), 300); hits > 0 {
				want = append(want, ranked{key, hits})
			}
		}
		slices.SortFunc(want, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.hits, a.hits), cmp.Compare(a.key, b.key)) })
		slices.Sort(names)
		for _, n := range []int{1, 10, 1000} {
			got, err := e.Top(now, 5*time.Minute, n, prefix)
			if err != nil || len(got) != min(n, len(want)) {
				t.Fatalf("Top(%d, %q): %d keys, %v; want %d", n, prefix, len(got), err, min(n, len(want)))
			}
			for i, kc := range got {
				if kc.Key != want[i].key || kc.Estimate != want[i].hits || !kc.Exact() {
					t.Errorf("Top(%d, %q)[%d] = %+v, want %+v", n, prefix, i, kc, want[i])
				}
			}
		}
		var paged []string
		for after := ""; ; after = paged[len(paged)-1] {
			page, err := e.Keys(prefix, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			paged = append(paged, page...)
			if len(page) < 7 {
				break
			}
		}
		if !slices.Equal(paged, names) {
			t.Errorf("Keys(%q) by pages: %d keys, want %d", prefix, len(paged), len(names))
		}
	}
}

func TestSeries(t *testing.T) {
	e := newTestEngine(t, Config{Clock: EventClock})
	var list naive
	r := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		at := 1_000_000 + r.Int64N(7200)
		e.HitAt(unix(at), "a", 1)
		list.add(at, 1)
	}
	for _, step := range []int64{1, 60, 600, 7200} {
		points, err := e.Series("a", unix(1_000_000), unix(1_007_200), time.Duration(step)*time.Second)
		if err != nil || len(points) != int(7200/step) {
			t.Fatalf("step %d: %d points, %v", step, len(points), err)
		}
		for i, p := range points {
			at := 1_000_000 + int64(i+1)*step
			if p.At.Unix() != at {
				t.Fatalf("point %d at %v", i, p.At)
			}
			checkBounds(t, "series", p.Count, list.count(at, step), false)
		}
	}
	for _, s := range []struct {
		from, to int64
		step     time.Duration
		code     api.Code
	}{
		{0, 10, 0, api.CodeInvalidWindow},
		{10, 0, time.Second, api.CodeInvalidRange},
		{0, 10, time.Minute, api.CodeInvalidRange},
		{0, 1_000_000, time.Second, api.CodeInvalidRange},
	} {
		_, err := e.Series("a", unix(s.from), unix(s.to), s.step)
		wantCode(t, err, s.code)
	}
}

func TestQueryLimits(t *testing.T) {
	e := newTestEngine(t, Config{})
	for _, n := range []int{-1, 0, MaxList + 1} {
		_, err := e.Top(e.Now(), time.Minute, n, "")
		wantCode(t, err, api.CodeInvalidRange)
		_, err = e.Keys("", "", n)
		wantCode(t, err, api.CodeInvalidRange)
	}
	_, err := e.Top(e.Now(), 0, 1, "")
	wantCode(t, err, api.CodeInvalidWindow)
}
