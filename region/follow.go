package region

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir/region/digest"
	"github.com/weir-counter/weir/region/ledger"
)

// load reads the log as it is at the start.
func (r *Region) load(ctx context.Context) error {
	first, last, _, err := r.stream.bounds(ctx)
	if err != nil {
		return err
	}
	r.ledger, r.first = ledger.New(first), first
	return r.followTo(ctx, last)
}

// holeAfter is for how long a message that should be there is asked of the replicas, before the leader is asked, whose
// answer counts.
const holeAfter = time.Second

// holePoll is how often.
const holePoll = 20 * time.Millisecond

// followTo takes all messages up to one, which is there.
func (r *Region) followTo(ctx context.Context, last uint64) error {
	for r.ledger.Next() <= last {
		sequence := r.ledger.Next()
		r.moved.Store(time.Now().UnixNano())
		m, err := r.stream.get(ctx, sequence, !r.asked.IsZero() && time.Since(r.asked) > holeAfter)
		switch {
		case err == nil:
			r.asked = time.Time{}
			r.take(sequence, m)
		case !errors.Is(err, errNoMessage):
			return err
		case r.asked.IsZero():
			r.asked = time.Now()
		case time.Since(r.asked) > holeAfter+holePoll: // the leader said so
			r.asked = time.Time{}
			r.take(sequence, entry{})
		}
		if !r.asked.IsZero() {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(holePoll):
			}
		}
	}
	return nil
}

// follow takes all that the log has, as the leader knows.
func (r *Region) follow(ctx context.Context) error {
	first, last, _, err := r.stream.bounds(ctx)
	if err != nil {
		return err
	}
	r.trimmed(first)
	return r.followTo(ctx, last)
}

// trimmed notes that the log begins with a message, whoever trimmed it.
func (r *Region) trimmed(first uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first > r.first {
		r.ledger.Trimmed(first - 1)
		r.first = first
	}
}

// take takes the log's next message; an empty one is one that nobody has any more.
func (r *Region) take(sequence uint64, of entry) {
	m, err := digest.Decode(of.data)
	if err != nil {
		m = digest.Message{}
		r.log.Error("regions: a message of the log can't be read", "message", sequence, "error", err)
	} else {
		of.decoded = &m
	}
	r.recent.add(sequence, of)
	r.mu.Lock()
	e := r.ledger.Take(sequence, len(of.data), m)
	r.mu.Unlock()
	if m.Region != "" && m.Region != r.cfg.Name {
		if err := r.views.Take(e); err != nil {
			r.unviewed.Add(1)
			r.log.Error("regions: windows of another region lack hits", "error", err)
		}
	}
	r.mu.Lock()
	if m.Region == "" {
		r.damaged++
	} else {
		r.show(m, len(of.data), e)
	}
	news := r.changed
	r.changed = make(chan struct{})
	r.mu.Unlock()
	close(news)
}

// show says of a region what is in its windows now. The caller holds mu.
func (r *Region) show(m digest.Message, bytes int, e ledger.Event) {
	s := r.shown[m.Region]
	s.bytes += uint64(bytes)
	switch of := e.Region; e.Kind {
	case ledger.Digest, ledger.Base, ledger.Gone:
		s.ID, s.at, s.note, s.gone = of.ID, of.At, of.Note, of.Gone
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
