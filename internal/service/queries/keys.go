package queries

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// KeysQuery asks for the names of keys.
type KeysQuery struct {
	Prefix string        // only keys that begin with it
	After  string        // only keys that sort after it
	Limit  int           // 1 or more
	Fresh  time.Duration // as of a CountQuery
	Scope  request.Scope
}

// Keys lists keys: those that the caller may read, and no word of others. It asks for one key more
// than the page holds, to know whether there are more.
func (s *Service) Keys(ctx context.Context, c access.Caller, q KeysQuery) (api.KeysAnswer, error) {
	_, parts, err := s.parts.Gate.EnterPrefix(c, auth.Read, q.Prefix)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	keys, fresh, err := keysOf(ctx, &asked, q, parts)
	if err != nil {
		return api.KeysAnswer{}, err
	}
	answer := api.KeysAnswer{Keys: keys, Freshness: asked.AboutPrefixes(fresh, parts)}
	if len(keys) > q.Limit {
		answer.Keys = keys[:q.Limit]
		answer.Next = keys[q.Limit-1]
	}
	if answer.Keys == nil {
		answer.Keys = []string{}
	}
	return answer, nil
}

// keysOf is the first keys of several prefixes, which are sorted, and of which none is within
// another; one more than the page holds.
func keysOf(ctx context.Context, asked *Asked, q KeysQuery, prefixes []string) (all []string, fresh api.Freshness, err error) {
	for i, prefix := range prefixes {
		keys, of, err := asked.Answers.Keys(ctx, asked.upTo, prefix, q.After, q.Limit+1-len(all))
		if err != nil {
			return nil, fresh, err
		}
		if i == 0 { // the others are no older
			fresh = of
		}
		fresh.Late = lateInAny(fresh.Late, of.Late)
		if all = append(all, keys...); len(all) > q.Limit {
			break
		}
	}
	return all, fresh, nil
}

// TopQuery asks for the keys with the most hits.
type TopQuery struct {
	Window time.Duration // whole seconds
	N      int
	Prefix string        // only keys that begin with it
	At     time.Time     // the end of the window; zero is Now
	Fresh  time.Duration // as of a CountQuery
	Scope  request.Scope
}

// Top lists keys, most hits first: those that the caller may read, and no word of others. O(keys)
// for each of its prefixes.
func (s *Service) Top(ctx context.Context, c access.Caller, q TopQuery) (api.TopAnswer, error) {
	_, parts, err := s.parts.Gate.EnterPrefix(c, auth.Read, q.Prefix)
	if err != nil {
		return api.TopAnswer{}, err
	}
	asked, err := s.parts.Sources.Within(ctx, q.Scope, q.Fresh)
	if err != nil {
		return api.TopAnswer{}, err
	}
	at, err := asked.At("at", q.At)
	if err != nil {
		return api.TopAnswer{}, err
	}
	keys, fresh, err := topOf(ctx, &asked, at, q, parts)
	if err != nil {
		return api.TopAnswer{}, err
	}
	fresh = asked.AboutPrefixes(fresh, parts)
	answer := api.TopAnswer{
		WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: at}, Prefix: q.Prefix,
		Keys: make([]api.TopKey, len(keys)), Freshness: fresh,
	}
	for i, k := range keys {
		answer.Keys[i] = api.TopKey{Key: k.Key, Bounds: SourceBounds(&k.Count, &fresh)}
	}
	return answer, nil
}

// topOf merges the lists of several prefixes, of which none is within another.
func topOf(ctx context.Context, asked *Asked, at time.Time, q TopQuery, prefixes []string) (all []engine.KeyCount, fresh api.Freshness, err error) {
	for i, prefix := range prefixes {
		keys, of, err := asked.Answers.Top(ctx, asked.upTo, at, q.Window, q.N, prefix)
		if err != nil {
			return nil, fresh, err
		}
		if i == 0 { // the others are no older
			fresh = of
		}
		if len(prefixes) == 1 {
			return keys, fresh, nil
		}
		fresh.Late = lateInAny(fresh.Late, of.Late)
		all = append(all, keys...)
	}
	slices.SortFunc(all, func(a, b engine.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), q.N)], fresh, nil
}

// lateInAny is who is late in one of two answers.
func lateInAny(a, b []api.Late) []api.Late {
	for _, late := range b {
		if !slices.ContainsFunc(a, func(has api.Late) bool { return has.Node == late.Node }) {
			a = append(slices.Clip(a), late)
		}
	}
	return a
}

// ExportQuery asks for history as a file.
type ExportQuery struct {
	Prefix   string        // only keys that begin with it
	From, To time.Time     // whole days of UTC; zero: the beginning; Now
	Unit     calendar.Unit // Day, or Hour: the slots of history
	Format   string        // of package export

	// Missing, if not nil, is called before the first byte if hits of some times may be missing, with these times.
	Missing func(times string)
}

// Export writes what history has, row by row. A failure may come after a part was written: who
// reads that part must learn that it is not whole.
func (s *Service) Export(ctx context.Context, c access.Caller, q ExportQuery, to io.Writer) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "export", q.Prefix, err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return err
	}
	if s.parts.History == nil {
		return &api.Error{Code: api.CodeNoHistory, Message: "this server keeps no history: start it without --history=false and --ephemeral"}
	}
	if q.Unit != calendar.Day && q.Unit != calendar.Hour {
		return &api.Error{Code: api.CodeInvalidParameter, Field: "unit", Message: "unit must be day or hour"}
	}
	if calendar.ExportFormats[q.Format] == "" {
		return &api.Error{Code: api.CodeInvalidParameter, Field: "format", Message: "format must be csv or parquet"}
	}
	if q.To.IsZero() {
		q.To = s.parts.Sources.Now().Add(time.Second)
	}
	if q.From.IsZero() {
		q.From = time.Unix(0, 0)
	}
	if !q.From.Before(q.To) {
		return &api.Error{Code: api.CodeInvalidRange, Field: "from", Message: "from must be before to"}
	}
	err = s.parts.Pools.Export.Within(c, func() error { return s.export(ctx, q, to) })
	if ctx.Err() != nil {
		return err
	}
	return request.Explain(ctx, s.parts.Log, err, &api.Error{Code: api.CodeNoHistory, Message: "history can't be read: the server's log says why"},
		"an export failed", "who", c.String())
}

func (s *Service) export(ctx context.Context, q ExportQuery, to io.Writer) error {
	missing, err := s.parts.History.Missing(ctx, q.From, q.To)
	if err != nil {
		return err
	}
	if missing != "" && q.Missing != nil {
		q.Missing(missing)
	}
	w, err := calendar.NewExport(q.Format, to)
	if err != nil {
		return err
	}
	if err := s.parts.History.Export(ctx, q.Prefix, q.From, q.To, q.Unit == calendar.Day, func(key string, start int64, n, doubt uint64) error {
		return w.Write(calendar.ExportRow{Key: key, Start: start, N: n, Doubt: doubt})
	}); err != nil {
		return err
	}
	return w.Close()
}
