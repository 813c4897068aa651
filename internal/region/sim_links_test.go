package region

import (
	"context"
	"errors"
	"maps"
	"testing"
)

// pull has a link of a region bring something.
func (w *simWorld) pull(region int) {
	r := w.regions[region]
	l := r.links[w.rng.IntN(len(r.links))]
	w.fill(region, l)
	for range 1 + w.rng.IntN(8) {
		if l.feed == nil || len(l.underWay) == 0 {
			return
		}
		data := l.underWay[0]
		l.underWay = l.underWay[1:]
		w.take(region, l, data)
	}
}

// fill has what the other region's log has on its way.
func (w *simWorld) fill(region int, l *simLink) {
	r, from := w.regions[region], w.regions[l.from].nodes[w.rng.IntN(2)]
	if l.feed == nil {
		have := r.nodes[0].ledger.Have()
		l.feed = &feed{r: from, as: r.name, sent: maps.Clone(have), own: have[r.name], begun: r.nodes[0].ledger.Begun()}
		l.feed.send = func(frames []byte) error { return nil }
		l.underWay, l.parts = nil, assembler{}
		if err := from.follow(context.Background()); err != nil {
			w.t.Fatal(err)
		}
		l.feed.begin()
	}
	if err := l.feed.r.follow(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	for l.feed.at < l.feed.r.ledger.Next() {
		if err := l.feed.one(context.Background()); err != nil { // trimmed meanwhile
			l.feed = nil
			return
		}
		l.underWay = append(l.underWay, frames(w.t, l.feed.frames)...)
		l.feed.frames = nil
	}
}

// frames takes frames apart.
func frames(t testing.TB, b []byte) (list [][]byte) {
	for len(b) > 0 {
		size, n := uint64(0), 0
		for shift := 0; ; shift += 7 {
			c := b[n]
			n++
			size |= uint64(c&0x7f) << shift
			if c < 0x80 {
				break
			}
		}
		list = append(list, b[n:n+int(size)])
		b = b[n+int(size):]
	}
	return list
}

// take has the region's owner take what a link brought.
func (w *simWorld) take(region int, l *simLink, data []byte) {
	o, whole, err := l.parts.add(data)
	if err == nil && whole {
		o.link = l.number
		n := w.regions[region].nodes[0]
		w.regions[region].log.acting = n
		n.links[l.number].running.Store(true)
		if err = n.follow(context.Background()); err == nil {
			err = n.accept(context.Background(), o)
		}
	}
	if errors.Is(err, errSimCrash) {
		w.restart(region, 0)
	}
	if err != nil { // the link is opened anew
		l.feed, l.underWay, l.parts = nil, nil, assembler{}
		w.regions[region].nodes[0].links[l.number].running.Store(false)
	}
}

// drain takes all that links have.
func (w *simWorld) drain(region int) {
	for _, l := range w.regions[region].links {
		for range 3 {
			w.fill(region, l)
			for l.feed != nil && len(l.underWay) > 0 {
				data := l.underWay[0]
				l.underWay = l.underWay[1:]
				w.take(region, l, data)
			}
		}
	}
}
