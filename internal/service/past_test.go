package service_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// remembered is a history that answers one total.
type remembered struct {
	queries.History
	total   engine.Count
	asOf    time.Time
	err     error
	late    bool // has not all hits in time
	asked   int
	from    int64
	to      int64
	awaited int
}

func (r *remembered) Totals(context.Context, string, []int64) ([]engine.Count, time.Time, error) {
	r.asked++
	return []engine.Count{r.total}, r.asOf, r.err
}

func (r *remembered) Await(ctx context.Context) error {
	if r.awaited++; r.late {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// History answers for a window of the past where it knows more, and for no other.
func TestCountsOfThePast(t *testing.T) {
	t.Parallel()
	midnight := time.Unix(1_769_817_600, 0) // of 2026-01-31
	now := midnight.Add(30 * time.Hour)
	e, err := engine.New(engine.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range 20_000 { // a hit every 13 s, in slots of minutes by now
		if _, err := e.HitAt(now.Add(-time.Duration(13*i)*time.Second), "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	last := midnight.Add(-time.Second) // of the day before
	for name, test := range map[string]struct {
		change  func(*queries.CountQuery, *remembered)
		history bool
		unasked bool
	}{
		"a whole day":               {history: true},
		"and with fresh":            {func(q *queries.CountQuery, _ *remembered) { q.Fresh = time.Second }, true, false},
		"of the region":             {func(q *queries.CountQuery, _ *remembered) { q.Scope = "region" }, true, false},
		"of one node":               {func(q *queries.CountQuery, _ *remembered) { q.Scope = "node" }, false, true},
		"of now":                    {func(q *queries.CountQuery, _ *remembered) { q.At = time.Time{} }, false, true},
		"within an hour":            {func(q *queries.CountQuery, _ *remembered) { q.At = midnight }, false, true},
		"at a moment":               {func(q *queries.CountQuery, _ *remembered) { q.At = last.Add(time.Millisecond) }, false, true},
		"a window of no hours":      {func(q *queries.CountQuery, _ *remembered) { q.Windows[0] -= time.Second }, false, true},
		"exact anyway":              {func(q *queries.CountQuery, _ *remembered) { q.Keys[0] = "none" }, false, true},
		"history is away":           {func(_ *queries.CountQuery, r *remembered) { r.err = errors.New("away") }, false, false},
		"history is late":           {func(_ *queries.CountQuery, r *remembered) { r.asOf = last }, false, false},
		"history can't be fresh":    {func(q *queries.CountQuery, r *remembered) { q.Fresh, r.late = time.Millisecond, true }, false, true},
		"history has a gap":         {func(_ *queries.CountQuery, r *remembered) { r.total.Upper = math.MaxUint64 }, false, false},
		"history has more doubt":    {func(_ *queries.CountQuery, r *remembered) { r.total.Lower, r.total.Upper = 1, 1e6 }, false, false},
		"late hits aren't in it":    {func(_ *queries.CountQuery, r *remembered) { r.total.Lower, r.total.Upper = 9, 9 }, false, false},
		"a deletion isn't in it":    {func(_ *queries.CountQuery, r *remembered) { r.total.Lower, r.total.Upper = 1e6, 1e6 }, false, false},
		"history has bounds, close": {func(_ *queries.CountQuery, r *remembered) { r.total.Upper++ }, true, false},
	} {
		h := &remembered{total: engine.Count{Lower: 6646, Estimate: 6646, Upper: 6646}, asOf: now.Add(-5 * time.Second)}
		q := queries.CountQuery{Keys: []string{"k"}, Windows: []time.Duration{day}, At: last}
		if test.change != nil {
			test.change(&q, h)
		}
		s, err := service.New(service.Backend{Engine: e, History: h}, service.Config{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Count(t.Context(), access.CallerAt("127.0.0.1:1"), q)
		if err != nil {
			t.Fatal(name, err)
		}
		a := list[0]
		if (a.Source == "history") != test.history || (h.asked == 0) != test.unasked {
			t.Errorf("%s: %s of %q; history was asked %d times", name, a.Bounds, a.Source, h.asked)
		}
		if want := api.Millis(h.asOf); test.history && (a.Lower != h.total.Lower || *a.Upper != h.total.Upper || q.Fresh == 0 && !a.AsOf.Equal(want.Time) || q.Fresh != 0 && a.AsOf.Before(want.Time)) {
			t.Errorf("%s: %+v", name, a)
		}
		if (h.awaited > 0) != (q.Fresh > 0) {
			t.Errorf("%s: awaited %d times", name, h.awaited)
		}
	}
}

func (r *remembered) Missing(context.Context, time.Time, time.Time) (string, error) { return "", nil }

func (r *remembered) Top(_ context.Context, prefix string, from, to int64, n int) ([]engine.KeyCount, time.Time, error) {
	r.asked++
	r.from, r.to = from, to
	var keys []engine.KeyCount
	for i := range min(n, 3) {
		c := engine.Count{Lower: uint64(10*(3-i) + len(prefix)), Upper: 40}
		if c.Estimate = c.Lower; i == 0 {
			c.Upper = math.MaxUint64
		} else {
			c.Estimate += (c.Upper - c.Lower) / 2
		}
		keys = append(keys, engine.KeyCount{Key: prefix + string(rune('a'+i)), Count: c})
	}
	return keys, r.asOf, r.err
}

// The keys with the most hits of spans of the calendar are asked of history alone.
func TestTopOfHistory(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	e, err := engine.New(engine.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	query := func(unit calendar.Unit) queries.AlignedTopQuery {
		return queries.AlignedTopQuery{N: 2, Prefix: "x", Spans: queries.Spans{Unit: unit, Zone: time.UTC}}
	}
	at := func(year int, month time.Month, day, hour int) int64 {
		return time.Date(year, month, day, hour, 0, 0, 0, time.UTC).Unix()
	}
	for name, test := range map[string]struct {
		query    queries.AlignedTopQuery
		change   func(*queries.AlignedTopQuery)
		err      error
		from, to int64
		code     api.Code
	}{
		"this month": {query: query(calendar.Month), from: at(2026, 3, 1, 0), to: at(2026, 4, 1, 0)},
		"two years": {query: query(calendar.Year), from: at(2025, 1, 1, 0), to: at(2027, 1, 1, 0),
			change: func(q *queries.AlignedTopQuery) { q.From = now.AddDate(-1, 0, 0) }},
		"up to midnight": {query: query(calendar.Day), from: at(2026, 3, 1, 0), to: at(2026, 3, 5, 0),
			change: func(q *queries.AlignedTopQuery) {
				q.From, q.To = time.Unix(at(2026, 3, 1, 9), 0), time.Unix(at(2026, 3, 5, 0), 0)
			}},
		"a day of 23 hours": {query: query(calendar.Day), from: at(2026, 3, 28, 23), to: at(2026, 3, 29, 22), change: func(q *queries.AlignedTopQuery) { q.Zone = berlin }},
		"from after now":    {query: query(calendar.Day), from: at(2026, 4, 1, 0), to: at(2026, 4, 2, 0), change: func(q *queries.AlignedTopQuery) { q.From = now.AddDate(0, 0, 3) }},
		"from after to":     {query: query(calendar.Day), change: func(q *queries.AlignedTopQuery) { q.From, q.To = now, now.Add(-time.Hour) }, code: api.CodeInvalidRange},
		"too many":          {query: query(calendar.Day), change: func(q *queries.AlignedTopQuery) { q.N = 1001 }, code: api.CodeInvalidParameter},
		"all regions":       {query: query(calendar.Day), change: func(q *queries.AlignedTopQuery) { q.Scope = "global" }, code: api.CodeInvalidParameter},
		"away":              {query: query(calendar.Day), err: errors.New("away"), code: api.CodeNoHistory},
	} {
		h := &remembered{asOf: now, err: test.err}
		s, err := service.New(service.Backend{Engine: e, History: h}, service.Config{})
		if err != nil {
			t.Fatal(err)
		}
		q := test.query
		if test.change != nil {
			test.change(&q)
		}
		got, err := s.AlignedTop(t.Context(), access.CallerAt("127.0.0.1:1"), q)
		if test.code != "" {
			if request.As(err).Code != test.code {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if h.from != test.from || h.to != test.to || got.Start.Unix() != test.from || got.At.Unix() != test.to-1 || got.WindowSeconds != test.to-test.from {
			t.Errorf("%s: from %v to %v", name, got.Start, got.At)
		}
		if len(got.Keys) != 2 || got.Keys[0].String() != "31 or more" || got.Keys[1].String() != "30 (21 to 40)" || got.Source != "history" || !got.AsOf.Equal(now) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s, err := service.New(service.Backend{Engine: e}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AlignedTop(t.Context(), access.CallerAt("127.0.0.1:1"), query(calendar.Day)); request.As(err).Code != api.CodeNoHistory {
		t.Error("without history:", err)
	}
}
