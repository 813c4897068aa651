package dashboard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// Parts cover the window, and not more than one part besides.
func TestParts(t *testing.T) {
	for _, w := range []time.Duration{time.Second, 2 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 1e9 * time.Second} {
		for _, end := range []int64{0, 1, 63, 1_769_860_799, 1_769_860_800, -5} {
			p := partsOf(time.Unix(end, 0), w, maxParts)
			seconds := int64(w / time.Second)
			questions := p.append(nil, "k", 0)
			var sum time.Duration
			for _, q := range questions {
				sum += q.Window
			}
			if len(questions) != p.len() || p.len() > maxParts+2 || sum < w || sum > w+time.Duration(p.step)*time.Second ||
				mod(p.from+1, p.step) != 0 || questions[p.len()-1].At.Unix() != end || p.from > end-seconds {
				t.Errorf("%v until %d: %+v, %d parts, %v", w, end, p, len(questions), sum)
			}
		}
	}
}

// Every part of a busy key is exact, whatever its age.
func TestLinesAreExact(t *testing.T) {
	end := time.Unix(1_769_860_800, 0)
	e, err := engine.New(engine.Config{Now: func() time.Time { return end }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for back := int64(14 * 24 * 3600); back >= 0; back -= 37 {
		if _, err := e.HitAt(end.Add(-time.Duration(back)*time.Second), "busy", uint64(1+back%5)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range windows {
		answer, err := KeyView(context.Background(), s, access.Caller{}, KeyQuery{Key: "busy", Window: w, With: []string{"other"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.With) != 1 || answer.With[0].Key != "other" || len(answer.With[0].Line) != len(answer.Before) {
			t.Errorf("%v: beside it: %+v", w, answer.With)
		}
		if answer.Line.Lower != nil || len(answer.Line.Estimate) != len(answer.Before) {
			t.Errorf("%v: not exact: %+v", w, answer.Line)
		}
	}
	q := OverviewQuery{Window: time.Hour, N: 5}
	keys, err := q.Keys(context.Background(), s, access.Caller{})
	if err != nil {
		t.Fatal(err)
	}
	overview, err := OverviewView(context.Background(), s, access.Caller{}, q, keys)
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for _, n := range overview.All.Line.Estimate {
		sum += n
	}
	if len(overview.Keys) != 1 || overview.Keys[0].Key != "busy" || overview.All.Hits.Estimate == 0 || sum < overview.All.Hits.Lower || overview.All.Keys != 1 {
		t.Errorf("%+v", overview)
	}
}

// Groups have the keys with most hits each, so that one kind of keys does not hide the others.
func TestGroups(t *testing.T) {
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range strings.Fields("plain other url:/c url:/b country:de url:/a") {
		if err := e.HitN(key, uint64(1+i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		if err := e.HitN(fmt.Sprint("visitor:", i), uint64(100+i)); err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[int]string{
		0: "visitor:199 visitor:198", 1: "visitor:199 visitor:198", 3: "visitor:199 visitor:198 url:/a country:de url:/b", 9: "visitor:199 visitor:198 url:/a country:de url:/b other plain",
	} {
		keys, err := OverviewQuery{Window: time.Minute, N: 2, Groups: groups}.Keys(t.Context(), s, access.Caller{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%d groups: %s", groups, got)
		}
	}
}
