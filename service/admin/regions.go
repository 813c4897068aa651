package admin

import (
	"context"
	"errors"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/sources"
)

// errNoRegion answers what only a server can that counts for a region.
var errNoRegion = &failure.Error{Code: api.CodeInvalidParameter, Message: "this server counts for no region: start it with --region"}

// Regions are those that count together, as this node sees them.
func (s *Service) Regions(c caller.Caller) (a api.RegionsAnswer, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return a, err
	}
	from := s.parts.Regions
	if from == nil {
		return a, errNoRegion
	}
	f := from.Figures()
	a = api.RegionsAnswer{
		Region: from.Region(), Now: api.Millis(s.parts.Sources.Wall()), Owner: f.Owner, Regions: []api.Region{}, Links: []api.RegionLink{}, Pulls: []api.RegionPull{}, Feeds: f.Feeds, Sent: f.Sent,
		Last: f.Last, Damaged: f.Damaged, Unread: f.Unread, Missing: f.Missing, Alarms: append([]api.Alarm{}, from.Alarms()...),
	}
	for _, r := range from.Regions() {
		one := api.Region{
			Region: r.Name, Self: r.Own, Linked: r.Linked, Known: r.Known || r.Own, Gone: r.Gone, Base: r.Base, Epoch: r.Epoch, Digest: r.Digest,
			AsOf: api.Millis(sources.FreshOf(r).AsOf), EveryS: r.Every.Seconds(), HeardS: r.Heard.Seconds(), LagS: r.Lag.Seconds(), Late: r.Behind, Bytes: r.Bytes, Wrong: r.Wrong, Keys: r.Keys,
		}
		for _, n := range r.Late {
			one.Nodes = append(one.Nodes, api.Late{Node: n.Name, Since: api.Millis(n.Since)})
		}
		a.Regions = append(a.Regions, one)
	}
	for _, l := range from.Links() {
		a.Links = append(a.Links, api.RegionLink{Region: l.Region, URL: l.URL, Up: l.Up, Why: l.Why, ForS: l.For.Seconds(), Bytes: l.Bytes, PerS: l.Rate, Retries: l.Retries})
	}
	for _, p := range from.Pulls() {
		a.Pulls = append(a.Pulls, api.RegionPull{Region: p.Region, Now: p.Now, Bytes: p.Bytes, PerS: p.Rate, Behind: p.Behind})
	}
	return a, nil
}

// Forget drops all hits of a region that is gone for good, here and wherever links lead.
func (s *Service) Forget(ctx context.Context, c caller.Caller, region string) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "forget region", region, err) }()
	if _, err := s.parts.Gate.EnterAll(c, auth.Admin); err != nil {
		return err
	}
	if s.parts.Regions == nil {
		return errNoRegion
	}
	err = s.parts.Regions.Forget(ctx, region)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backend.ErrUnknownRegion):
		return &failure.Error{Code: api.CodeUnknownRegion, Field: "region", Message: err.Error()}
	case errors.Is(err, backend.ErrOwnRegion):
		return &failure.Error{Code: api.CodeInvalidParameter, Field: "region", Message: err.Error()}
	}
	s.parts.Log.ErrorContext(ctx, "a region was not forgotten", "region", region, "error", err)
	return &failure.Error{Code: api.CodeStopping, Message: "the region was not forgotten: ask again; the server's log says why"}
}

// FeedRegion is the name of this region for one that pulls from it; it fails where that may not.
func (s *Service) FeedRegion(c caller.Caller) (name string, err error) {
	if _, err := s.parts.Gate.EnterAll(c, auth.Read); err != nil {
		return "", err
	}
	if s.parts.Regions == nil {
		return "", errNoRegion
	}
	return s.parts.Regions.Region(), nil
}

// Feed sends a region what it has not, and what comes, until ctx is done, the caller may not read any more, or the server stops.
func (s *Service) Feed(ctx context.Context, c caller.Caller, ask backend.FeedRequest, send func(frames []byte) error, flush func() error) error {
	err := s.parts.Regions.Feed(ctx, ask, send, func() error {
		if _, err := s.parts.Gate.Identity(c); err != nil {
			return err
		}
		return flush()
	})
	switch {
	case errors.Is(err, backend.ErrFeedRequest):
		return &failure.Error{Code: api.CodeInvalidParameter, Message: err.Error()}
	case errors.Is(err, backend.ErrFeedsFull):
		return &failure.Error{Code: api.CodeOverloaded, Message: err.Error()}
	}
	return err
}
