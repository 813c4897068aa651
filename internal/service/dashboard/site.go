package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
)

// SiteQuery asks for the page of a site.
type SiteQuery struct {
	Site    string
	Classes []string // what its keys are about, after its name
	More    string   // the class with moreNames names
	Period  string   // today, 7d, 30d, 365d, or the days FROM..TO, each as 2026-01-31
	Zone    *time.Location
}

const (
	siteNames = 11              // of each class: the page shows ten, and whether there are more
	moreNames = 100             // of one that more is asked for of
	siteNow   = 5 * time.Minute // within which a visitor is there now
	day       = 24 * time.Hour
)

// sitePeriod is the time that a page is about.
type sitePeriod struct {
	queries.Spans           // whole days
	last          time.Time // the last second, or now
	ended         bool
	history       bool // its numbers are of history
}

// period reads the period at a time.
func (q *SiteQuery) period(s *service.Service) (p sitePeriod, err error) {
	now := s.Now()
	today := calendar.Day.Start(now.In(q.Zone))
	p.Zone, p.To = q.Zone, calendar.Day.Next(today)
	days, preset := map[string]int{"": 1, "today": 1, "7d": 7, "30d": 30, "365d": 365}[q.Period]
	if p.From = today; preset {
		for range days - 1 {
			p.From = calendar.Day.Start(p.From.Add(-time.Second))
		}
	} else {
		first, last, _ := strings.Cut(q.Period, "..")
		from, bad := time.ParseInLocation(time.DateOnly, first, q.Zone)
		to, worse := time.ParseInLocation(time.DateOnly, cmp.Or(last, first), q.Zone)
		if bad != nil || worse != nil || to.Before(from) || from.Unix() < 0 || from.After(now) {
			return p, &api.Error{Code: api.CodeInvalidParameter, Field: "period", Message: "period must be today, 7d, 30d, 365d, or days up to today such as 2026-01-01..2026-01-31"}
		}
		if p.From = calendar.Day.Start(from); to.Before(today) {
			p.To, p.ended = calendar.Day.Next(calendar.Day.Start(to)), true
		}
	}
	p.last = p.To.Add(-time.Second)
	if !p.ended {
		p.last = now
	}
	p.history = s.Backend().History != nil && (p.ended || p.beyond(s))
	switch span := p.To.Sub(p.From); {
	case span <= 50*time.Hour: // two days, with a change of the clocks
		p.Unit = calendar.Hour
	case span <= 93*day:
		p.Unit = calendar.Day
	default:
		p.Unit = calendar.Month
	}
	return p, nil
}

// window is the period as a window that ends with its last second.
func (p *sitePeriod) window() time.Duration {
	return time.Duration(p.last.Unix()-p.From.Unix()+1) * time.Second
}

// beyond reports whether windows do not reach back as far.
func (p *sitePeriod) beyond(s *service.Service) bool {
	return s.Now().Sub(p.From) > s.Backend().Engine.Config().Retention
}

// SiteView is the page of a site, for a caller who may read all its keys. Keys returns the keys of its lists.
func SiteView(ctx context.Context, s *service.Service, c access.Caller, q SiteQuery, keys []string) (a api.SiteView, err error) {
	if err := s.Permit(c, access.Need{Roles: []auth.Role{auth.Read}}, q.Site+":"); err != nil {
		return a, err
	}
	p, err := q.period(s)
	if err != nil {
		return a, err
	}
	a = api.SiteView{Site: q.Site, From: api.Time{Time: p.From}, To: api.Time{Time: p.last}, Unit: string(p.Unit), Zone: q.Zone.String(), Source: "windows", Lists: []api.SiteTop{}}
	if p.history {
		a.Source = "history"
		err = q.fromHistory(ctx, s, c, &p, &a)
	} else {
		err = q.fromWindows(ctx, s, c, &p, keys, &a)
	}
	if err != nil {
		return a, err
	}
	views := q.Site + ":visitors"
	series, err := s.Aligned(ctx, c, queries.AlignedQuery{Key: views, Spans: p.Spans})
	if err != nil {
		return a, err
	}
	a.Line = slices.DeleteFunc(series.Points, func(point api.Point) bool { return point.Start.After(p.last) })
	visitors := func(w time.Duration, at time.Time) *api.Distinct {
		d, failed := s.Distinct(ctx, c, queries.DistinctQuery{Keys: []string{views}, Window: w, At: at})
		err = cmp.Or(err, failed)
		return &d
	}
	a.Now = visitors(siteNow, time.Time{})
	if p.history {
		d, failed := s.UnionBetween(ctx, c, views, p.From, p.To)
		a.Visitors, err = &d, cmp.Or(err, failed)
	}
	switch {
	case a.Visitors != nil && a.Visitors.Upper != nil, p.beyond(s):
	case !p.ended:
		a.Visitors = visitors(p.window(), time.Time{})
	default:
		if a.Visitors = visitors(p.window(), p.last); p.To.Unix()%int64(day/time.Second) == 0 && a.Visitors.Upper != nil {
			a.Visitors.Lower, a.Visitors.Upper = a.Visitors.Estimate, &a.Visitors.Estimate // no visitor is the same after midnight of UTC
		}
	}
	return a, err
}

// Keys returns the keys with most hits in the period, of all classes, as for OverviewView; none if the answer comes from history.
func (q *SiteQuery) Keys(ctx context.Context, s *service.Service, c access.Caller) (keys []string, err error) {
	p, err := q.period(s)
	if err != nil || p.history {
		return nil, err
	}
	for _, class := range q.Classes {
		top, err := s.Top(ctx, c, queries.TopQuery{Window: p.window(), At: p.last, N: q.names(class), Prefix: q.prefix(class)})
		if err != nil {
			return nil, err
		}
		for i := range top.Keys {
			keys = append(keys, top.Keys[i].Key)
		}
	}
	return keys, nil
}

func (q *SiteQuery) prefix(class string) string { return q.Site + ":" + class + ":" }

// names is how many names of a class are listed.
func (q *SiteQuery) names(class string) int {
	if class == q.More {
		return moreNames
	}
	return siteNames
}

// fromWindows counts keys in the period.
func (q *SiteQuery) fromWindows(ctx context.Context, s *service.Service, c access.Caller, p *sitePeriod, keys []string, a *api.SiteView) error {
	var questions []api.CountQuestion
	for _, key := range append([]string{q.Site + ":visitors", q.Site + ":bot"}, keys...) {
		questions = append(questions, api.CountQuestion{Key: key, At: p.last, Window: p.window()})
	}
	bounds, fresh, err := s.Batch(ctx, c, questions)
	if err != nil {
		return err
	}
	a.Freshness = fresh
	totals := take(&bounds, 2)
	a.Views, a.Filtered = totals[0], totals[1]
	counts := make([]api.TopKey, len(keys))
	for i, key := range keys {
		counts[i] = api.TopKey{Key: key, Bounds: bounds[i]}
	}
	for _, class := range q.Classes {
		q.add(a, class, counts)
	}
	return nil
}

// fromHistory has the lists and totals of whole days.
func (q *SiteQuery) fromHistory(ctx context.Context, s *service.Service, c access.Caller, p *sitePeriod, a *api.SiteView) error {
	spans := p.Spans
	spans.Unit = calendar.Day
	missing := ""
	top := func(prefix string, n int) ([]api.TopKey, error) {
		answer, err := s.AlignedTop(ctx, c, queries.AlignedTopQuery{Prefix: prefix, N: n, Spans: spans})
		a.Freshness, missing = answer.Freshness, answer.Missing
		return answer.Keys, err
	}
	for key, total := range map[string]*api.Bounds{q.Site + ":visitors": &a.Views, q.Site + ":bot": &a.Filtered} {
		keys, err := top(key, siteNames)
		if err != nil {
			return err
		}
		if missing == "" {
			*total = api.Bounds{Upper: new(uint64), Exact: true} // of no hits
		}
		if i := slices.IndexFunc(keys, func(k api.TopKey) bool { return k.Key == key }); i >= 0 {
			*total = keys[i].Bounds
		}
	}
	for _, class := range q.Classes {
		keys, err := top(q.prefix(class), q.names(class))
		if err != nil {
			return err
		}
		q.add(a, class, keys)
	}
	return nil
}

// add adds the list of a class, with the counts that belong to it.
func (q *SiteQuery) add(a *api.SiteView, class string, counts []api.TopKey) {
	list := api.SiteTop{Class: class, Names: []api.TopKey{}}
	for _, k := range counts {
		if name, is := strings.CutPrefix(k.Key, q.prefix(class)); is && k.Estimate > 0 {
			list.Names = append(list.Names, api.TopKey{Key: name, Bounds: k.Bounds})
		}
	}
	slices.SortStableFunc(list.Names, func(a, b api.TopKey) int { return cmp.Compare(b.Estimate, a.Estimate) })
	a.Lists = append(a.Lists, list)
}
