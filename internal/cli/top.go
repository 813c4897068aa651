package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
)

// This part draws what a server counts on a terminal: `weir top`, a full screen of keys, limits and nodes. Parts
// are the same views as lines of text, for `weir watch`.
//
// Its invariants: it asks for one view at a time (weir watch: one for each key), as the pages of the dashboard do, and
// so costs a server no more than one page; a name never moves the cursor, whatever is in it; it fits 80 columns by
// 24 lines, and any more. Neighbours: package client streams the views.

// Options are what `weir top` begins with.
type Options struct {
	Source  Source
	Server  string // its address, as it is shown
	Window  time.Duration
	Prefix  string
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Run draws until the reader leaves, or ctx ends. An error says why there was never anything to see.
func Run(ctx context.Context, o Options) error {
	m := &model{server: o.Server, zone: time.Local, place: place{window: o.Window, prefix: o.Prefix}}
	m.filter[keysScreen] = o.Prefix
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ))
	f := &follower{ctx: ctx, from: o.Source, to: p.Send}
	m.turn = f.turn
	defer f.close()
	defer cancel()
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	return cmp.Or(err, m.fatal)
}

// plain is a text without its styles.
func plain(text string) string { return ansi.Strip(text) }

// Source is where views come from: a *client.Client.
type Source interface {
	WatchOverview(ctx context.Context, q client.OverviewQuery, each func(api.OverviewAnswer)) error
	WatchKey(ctx context.Context, key string, window time.Duration, each func(api.KeyAnswer)) error
	WatchLimits(ctx context.Context, name string, window time.Duration, each func(api.LimitsView)) error
	WatchNodes(ctx context.Context, each func(api.NodesView)) error
}

// place is what is looked at. A view belongs to the place that it was asked for.
type place struct {
	screen screen
	name   string // of the key or limit
	window time.Duration
	prefix string // of keys
}

type (
	// arrived is a view of a place.
	arrived struct {
		of   place
		view any
	}
	// lost is why a stream of views ended; it is asked for again.
	lost struct {
		of  place
		err error
	}
)

// maxKeys is how many keys a view has at most.
const maxKeys = 100

// watch streams the views of a place until ctx or the stream ends.
func watch(ctx context.Context, from Source, of place, to func(tea.Msg)) error {
	switch of.screen {
	case limitsScreen, limitScreen:
		return from.WatchLimits(ctx, of.name, of.window, func(v api.LimitsView) { to(arrived{of, v}) })
	case nodesScreen:
		return from.WatchNodes(ctx, func(v api.NodesView) { to(arrived{of, v}) })
	case keyScreen:
		return from.WatchKey(ctx, of.name, of.window, func(v api.KeyAnswer) { to(arrived{of, v}) })
	}
	return from.WatchOverview(ctx, client.OverviewQuery{Window: of.window, N: maxKeys, Prefix: of.prefix}, func(v api.OverviewAnswer) { to(arrived{of, v}) })
}

// pauses between attempts.
const (
	minPause = 250 * time.Millisecond
	maxPause = 4 * time.Second
)

// follow watches a place until ctx ends, and again whenever the stream ends, unless the same question would have the same answer.
func follow(ctx context.Context, from Source, of place, to func(tea.Msg)) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := watch(ctx, from, of, func(m tea.Msg) {
			pause = minPause
			to(m)
		})
		if ctx.Err() != nil {
			return
		}
		to(lost{of, err})
		if final(err) {
			return
		}
		timer := time.NewTimer(pause - time.Duration(rand.Int64N(int64(pause/4))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// final tells whether a server will not answer otherwise later.
func final(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests
}

// follower follows places: those that were asked for last.
type follower struct {
	ctx     context.Context
	from    Source
	to      func(tea.Msg)
	end     context.CancelFunc
	running sync.WaitGroup
}

// turn follows these places, and no longer those before.
func (f *follower) turn(to ...place) {
	if f.end != nil {
		f.end()
	}
	ctx, end := context.WithCancel(f.ctx)
	f.end = end
	for _, of := range to {
		f.running.Go(func() { follow(ctx, f.from, of, f.to) })
	}
}

// close ends all, and returns when they have ended.
func (f *follower) close() {
	if f.end != nil {
		f.end()
	}
	f.running.Wait()
}
