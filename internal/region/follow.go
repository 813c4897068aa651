package region

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
)

func (r *Region) load(ctx context.Context) error {
	first, last, err := r.stream.bounds(ctx)
	if err != nil {
		return err
	}
	r.ledger, r.first = NewLedger(first), first
	return r.followTo(ctx, last)
}

// holeAfter is how long any replica is asked for a message that should exist, before the leader is asked.
const holeAfter = time.Second

// holePoll is the pause between two questions.
const holePoll = 20 * time.Millisecond

// followTo takes all messages up to last, which exists.
func (r *Region) followTo(ctx context.Context, last uint64) error {
	for r.ledger.Next() <= last {
		sequence := r.ledger.Next()
		m, err := r.stream.get(ctx, sequence, !r.asked.IsZero() && time.Since(r.asked) > holeAfter)
		switch {
		case err == nil:
			r.asked = time.Time{}
			r.take(ctx, sequence, m)
		case !errors.Is(err, errNoMessage):
			return err
		case r.asked.IsZero():
			r.asked = time.Now()
		case time.Since(r.asked) > holeAfter+holePoll: // the leader does not have it
			r.asked = time.Time{}
			r.take(ctx, sequence, entry{})
		}
		if !r.asked.IsZero() {
			if err := concurrency.Sleep(ctx, holePoll); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow takes all that the log has, as the leader knows.
func (r *Region) follow(ctx context.Context) error {
	first, last, err := r.stream.bounds(ctx)
	if err != nil {
		return err
	}
	r.trimmed(first)
	return r.followTo(ctx, last)
}

// trimmed records that the log begins with a message.
func (r *Region) trimmed(first uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first > r.first {
		r.ledger.Trimmed(first - 1)
		r.first = first
	}
}

// take takes the log's next message; an empty one is lost.
func (r *Region) take(ctx context.Context, sequence uint64, stored entry) {
	m, err := Decode(stored.data)
	if err != nil {
		m = Message{}
		r.log.Error("regions: a message of the log can't be read", "message", sequence, "error", err)
	} else {
		stored.decoded = &m
	}
	r.recent.add(sequence, stored)
	r.mu.Lock()
	e := r.ledger.Take(sequence, len(stored.data), m)
	r.mu.Unlock()
	if m.Region != "" && m.Region != r.cfg.Name {
		if err := r.views.Take(e, func(do func(Message) error) error {
			return r.pieces(ctx, m.Region, m.ID, func(piece Message, _ []byte) error {
				return do(piece)
			})
		}); err != nil {
			r.unviewed.Add(1)
			r.log.Error("regions: hits of another region are missing here", "error", err)
		}
	}
	r.mu.Lock()
	if m.Region == "" {
		r.damaged++
	} else {
		r.show(m, len(stored.data), e)
	}
	news := r.changed
	r.changed = make(chan struct{})
	r.mu.Unlock()
	close(news)
}

// show records what the windows of a region have now. The caller holds mu.
func (r *Region) show(m Message, bytes int, e Event) {
	s := r.shown[m.Region]
	s.bytes += uint64(bytes)
	switch known := e.Region; e.Kind {
	case Digest, Base, LedgerGone:
		s.ID, s.at, s.note, s.gone = known.ID, known.At, known.Note, known.Gone
		s.heard, s.lag = time.Now(), time.Since(time.UnixMilli(m.At))
	}
	r.shown[m.Region] = s
}

// message reads a message of the log for a feed.
func (r *Region) message(ctx context.Context, sequence uint64) (entry, error) {
	if m := r.recent.get(sequence); m.data != nil {
		return m, nil
	}
	m, err := r.stream.get(ctx, sequence, false)
	if errors.Is(err, errNoMessage) {
		m, err = r.stream.get(ctx, sequence, true)
	}
	return m, err
}

// errLacks says that the log does not have all pieces of a base.
var errLacks = errors.New("the log lacks a piece of the base: it was trimmed meanwhile, or a message is lost")

// pieces calls do with each piece of a base that the log has, in order, until do returns an error.
func (r *Region) pieces(ctx context.Context, region string, id ID, do func(m Message, data []byte) error) error {
	r.mu.Lock()
	first, last, _ := r.ledger.Base(region, id)
	r.mu.Unlock()
	var number, before uint64
	for at := first; at <= last; at++ {
		stored, err := r.message(ctx, at)
		for err != nil && !errors.Is(err, errNoMessage) {
			if err := concurrency.Sleep(ctx, holePoll); err != nil {
				return err
			}
			stored, err = r.message(ctx, at)
		}
		if err != nil {
			return errLacks
		}
		m, err := stored.message()
		if err != nil || m.Piece == nil || m.Region != region || m.ID != id || m.Number != number || at > first && m.Piece.Before != before {
			continue
		}
		if err := do(m, stored.data); err != nil || m.Last {
			return err
		}
		number, before = number+1, NextHash(m.Piece.Before, stored.data)
	}
	return errLacks
}

// recent has the newest messages of the log, for feeds: the zero recent is ready for use.
type recent struct {
	mu    sync.Mutex
	first uint64 // sequence of list[0]
	list  []entry
	bytes int
}

const (
	recentBytes    = 8 << 20
	recentMessages = 4096
)

func (c *recent) add(sequence uint64, m entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sequence != c.first+uint64(len(c.list)) {
		c.first, c.list, c.bytes = sequence, nil, 0
	}
	c.list, c.bytes = append(c.list, m), c.bytes+len(m.data)
	for len(c.list) > recentMessages || c.bytes > recentBytes && len(c.list) > 1 {
		c.bytes -= len(c.list[0].data)
		c.list[0] = entry{}
		c.first, c.list = c.first+1, c.list[1:]
	}
}

// get is a message; without data it is not kept.
func (c *recent) get(sequence uint64) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sequence < c.first || sequence >= c.first+uint64(len(c.list)) {
		return entry{}
	}
	return c.list[sequence-c.first]
}

// Two regions with the same name, by mistake of an operator, replace each other in all counts. It shows in two ways.
//
// A region that pulls says which epoch of its own name it has. No region returns to an older epoch. So digests of an older
// epoch with much later hits are from another region (twiceOfFeed).
//
// And if both reach the same region, each begins a newer epoch than the other, again and again (contested).

// twiceFor is how long the alarm lasts after the last sign.
const twiceFor = time.Minute

// twiceAfter is how much later than the begin of a feed the hits of a digest must be, in intervals between digests. Clocks
// of regions agree within a second or two.
const twiceAfter = 10

// nameTwice records that two regions have a name. The caller holds mu.
func (r *Region) nameTwice(name string, now time.Time) {
	if now.Sub(r.sharedNames[name]) > twiceFor {
		r.log.Error("regions: two regions have the same name and replace each other in all counts. Give one of them another --region and an empty data directory", "region", name)
	}
	r.sharedNames[name] = now
}

// contested records an epoch of this region's name that it has not begun. The first one may be from before a restart. The
// second one within a while is from another region.
func (r *Region) contested(now time.Time) {
	if r.renewed.IsZero() {
		return
	}
	if !r.rival.IsZero() && now.Sub(r.rival) < twiceFor {
		r.mu.Lock()
		r.nameTwice(r.cfg.Name, now)
		r.mu.Unlock()
	}
	r.rival = now
}

// twiceOfFeed finds digests under the name of a region that pulls which are from another region. The caller holds mu.
func (f *feed) twiceOfFeed(began time.Time) {
	known := f.r.ledger.Region(f.as)
	if known == nil || known.Gone || known.Epoch >= f.own.Epoch {
		return
	}
	if time.UnixMilli(known.At).Sub(began) > twiceAfter*f.r.cfg.Every {
		f.r.nameTwice(f.as, time.Now())
	}
}

// namesTwice returns the names that two regions have, sorted.
func (r *Region) namesTwice() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, at := range r.sharedNames {
		if time.Since(at) < twiceFor {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
