package region

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
)

// offer is what a link brings: all parts of a digest, or a piece of a base.
type offer struct {
	link     int
	messages []Message
	data     [][]byte
}

// The reasons why an offer is not taken.
var (
	errNotOwner = errors.New("this node does not write the log of digests any more")
	errGap      = errors.New("digests before it are missing")
	errMixed    = errors.New("a piece of a base does not go on what the log has of it; will take it from its beginning")
)

// accept appends what a link brings, if it is new.
func (r *Region) accept(ctx context.Context, o offer) error {
	if !r.owns() {
		return errNotOwner
	}
	m := o.messages[0]
	if m.Region == r.cfg.Name {
		r.seeOwn(m)
		return nil
	}
	switch r.ledger.Wants(m) {
	case Known:
		return nil
	case Gap:
		return errGap
	}
	if m.Piece != nil {
		if !r.mayBuild(o.link, m) {
			return nil
		}
		switch r.ledger.WantsPiece(m) {
		case Known: // such as pieces of a base that was cut off and comes again from its beginning
			return nil
		case Gap:
			return errMixed
		}
	}
	for _, data := range o.data {
		if err := r.append(ctx, entry{data: data, via: r.links[o.link].Region}); err != nil {
			if errors.Is(err, errBehind) {
				err = errors.Join(err, r.follow(ctx))
			}
			return err
		}
	}
	if m.Piece != nil && m.Last {
		delete(r.building, m.Region)
	}
	return nil
}

// seeOwn takes what a link has of this region's name. Anything newer than what is here is from an earlier disk of the
// region, or from another region of the same name. Then a newer epoch begins.
func (r *Region) seeOwn(m Message) {
	own := r.ledger.Region(r.cfg.Name)
	if (own == nil || own.Epoch < m.Epoch) && r.foreign.Before(m.ID) {
		if r.foreign.Epoch < m.Epoch {
			r.contested(r.now())
		}
		r.foreign = m.ID
		r.tail = nil
	}
}

// mayBuild reports whether a piece of a base is taken from the link that brings it: only one link brings a base at a time. A
// link begins with the first piece, or after the pieces that the log has.
func (r *Region) mayBuild(by int, m Message) bool {
	b, is := r.building[m.Region]
	now := r.now()
	if mine := is && b.link == by; !mine {
		if m.Number > 0 && r.ledger.WantsPiece(m) != Next || is && r.links[b.link].running.Load() && now.Sub(b.at) < buildPause {
			return false
		}
	}
	b.link, b.at = by, now
	r.building[m.Region] = b
	return true
}

// buildPause is how long a link may bring no piece before another link may bring the base. The region at its other end may
// itself wait for this one.
const buildPause = 3 * time.Second

// builder is the link that brings a base, and when its last piece came.
type builder struct {
	link int
	at   time.Time
}

// linkState is a link as it runs.
type linkState struct {
	Link
	traffic // that came
	number  int
	running atomic.Bool // it is connected

	mu      sync.Mutex
	failure string // why it is not; "": it is
	since   time.Time
	tries   uint64
}

// pullAll pulls from all links until the caller calls stop.
func (r *Region) pullAll(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	if r.cfg.Transport != nil {
		for _, l := range r.links {
			all.Go(func() { r.pull(ctx, l) })
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// Pauses between attempts to connect. A cut link heals within a second.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

func (r *Region) pull(ctx context.Context, l *linkState) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := r.pullOnce(ctx, l)
		l.running.Store(false)
		if ctx.Err() != nil {
			return
		}
		if l.set(err) {
			r.log.Warn("regions: a link is down; will retry", "link", l.Region, "url", l.URL, "error", err)
		}
		if time.Since(began) > mostPause {
			pause = firstPause
		}
		if concurrency.Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// set records why a link is down, or with nil that it is up, and reports whether that is news.
func (l *linkState) set(err error) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.failure
	if l.failure = ""; err != nil {
		l.failure = err.Error()
		l.tries++
	}
	if news = (was == "") != (err == nil); news || err == nil {
		l.since = time.Now()
	}
	return news
}

func (r *Region) pullOnce(ctx context.Context, l *linkState) error {
	r.mu.Lock()
	q := LinkRequest{URL: l.URL, As: r.cfg.Name, Have: r.ledger.Have(), Begun: r.ledger.Begun()}
	r.mu.Unlock()
	if l.Token != nil {
		var err error
		if q.Token, err = l.Token(); err != nil {
			return err
		}
	}
	from, err := DialLink(ctx, r.cfg.Transport, q)
	if err != nil {
		return err
	}
	defer from.Close()
	if from.Region != l.Region {
		return fmt.Errorf("region %s answers there, not %s: correct the --link", from.Region, l.Region)
	}
	l.running.Store(true)
	if l.set(nil) {
		r.log.Info("regions: a link is up", "link", l.Region, "url", l.URL)
	}
	var parts assembler
	for {
		data, err := from.Next()
		if err != nil {
			return err
		}
		l.add(len(data) + FrameBytes)
		if len(data) == 0 {
			continue // it is alive
		}
		o, whole, err := parts.add(data)
		if err == nil && whole {
			o.link = l.number
			err = r.do(ctx, func(ctx context.Context) error { return r.accept(ctx, o) })
		}
		if err != nil {
			return err
		}
	}
}

// assembler puts together what a link brings: a digest counts only with all its parts.
type assembler struct{ offer }

// add takes the next message, and returns what it completes.
func (a *assembler) add(data []byte) (o offer, whole bool, err error) {
	m, err := Decode(data)
	if err != nil {
		return o, false, err
	}
	if m.Piece != nil {
		return offer{messages: []Message{m}, data: [][]byte{data}}, true, nil
	}
	if m.Number == 0 {
		a.offer = offer{}
	} else if n := len(a.messages); n == 0 || a.messages[n-1].ID != m.ID || a.messages[n-1].Region != m.Region || a.messages[n-1].Number+1 != m.Number {
		return o, false, fmt.Errorf("part %d of digest %d of region %s came out of turn", m.Number, m.Seq, m.Region)
	}
	a.messages, a.data = append(a.messages, m), append(a.data, data)
	if !m.Last {
		return o, false, nil
	}
	o, a.offer = a.offer, offer{}
	return o, true, nil
}
