package region

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
)

// maxFeeds bounds the regions that pull from a node at once.
const maxFeeds = 64

// ErrFull is the error if maxFeeds pull already.
var ErrFull error = &api.Error{Code: api.CodeOverloaded, Message: "64 regions already pull from this node: link to another node"}

// ErrRequest is wrapped by the errors for a request that is wrong.
var ErrRequest error = &api.Error{Code: api.CodeInvalidParameter, Message: "not the request of a link"}

// Feed sends another region all that it lacks, and then what comes, until ctx is done or the region is closed. It calls send
// with frames (link.go), which send must not keep, and flush when they must leave.
func (r *Region) Feed(ctx context.Context, as, have, begun string, send func(frames []byte) error, flush func() error) error {
	if err := CheckName(as); err != nil {
		return fmt.Errorf("%w: as: %w", ErrRequest, err)
	}
	f := &feed{r: r, as: as, send: send}
	if err := errors.Join(json.Unmarshal([]byte(cmp.Or(have, "{}")), &f.sent), json.Unmarshal([]byte(cmp.Or(begun, "{}")), &f.begun)); err != nil {
		return fmt.Errorf("%w: have and begun are JSON: %w", ErrRequest, err)
	}
	if f.sent == nil { // of null
		f.sent = map[string]ID{}
	}
	f.own = f.sent[as]
	defer r.figures.feeds.Add(-1)
	if r.figures.feeds.Add(1) > maxFeeds {
		return ErrFull
	}
	f.pull = r.figures.pulls.begin(as)
	defer f.pull.now.Add(-1)
	f.begin()
	began := time.Now()
	flushed := began
	for {
		r.mu.Lock()
		next, news := r.ledger.Next(), r.changed
		f.twiceOfFeed(began)
		r.mu.Unlock()
		for f.at < next {
			f.pull.behind.Store(next - f.at)
			if err := f.one(ctx); err != nil {
				return err
			}
			if time.Since(flushed) < KeepAlive {
				continue
			}
			f.frames = AppendFrame(f.frames, nil) // much may be passed over
			if err := errors.Join(f.flush(), flush()); err != nil {
				return err
			}
			flushed = time.Now()
		}
		if err := errors.Join(f.flush(), flush()); err != nil {
			return err
		}
		f.pull.behind.Store(0)
		flushed = time.Now()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ended:
			return errClosed
		case <-news:
		case <-time.After(KeepAlive):
			f.frames = AppendFrame(f.frames, nil)
		}
	}
}

// feed sends one other region what it lacks.
type feed struct {
	r      *Region
	as     string
	pull   *pull // nil: it is a simulation's
	own    ID    // what it has of itself
	sent   map[string]ID
	begun  map[string][]Begun // bases whose first pieces it has
	start  map[string]uint64  // by region: the first message that is wanted
	at     uint64             // the next message of the log
	live   uint64             // the first message that came after it asked
	part   map[string]Message // by region: the last part that was sent of a digest that is not whole
	frames []byte
	send   func(frames []byte) error
}

// begin finds the message of the log to begin with.
func (f *feed) begin() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	l := f.r.ledger
	f.at, f.start, f.part = l.Next(), map[string]uint64{}, map[string]Message{}
	for _, name := range l.Regions() {
		f.start[name] = l.From(name, f.sent[name])
		f.at = min(f.at, f.start[name])
	}
	f.live = l.Next()
}

// framesAtOnce is how many bytes are sent together.
const framesAtOnce = 256 << 10

// one sends the next message of the log, if the other region lacks it.
func (f *feed) one(ctx context.Context) error {
	sequence := f.at
	f.at++
	stored, err := f.read(ctx, sequence)
	data := stored.data
	if data == nil {
		return err
	}
	m, err := stored.message()
	if err != nil || sequence < f.start[m.Region] || m.Region == f.as && m.Epoch <= f.own.Epoch {
		return nil
	}
	switch sent := f.sent[m.Region]; {
	case stored.via == f.as && sequence >= f.live:
		// The other region sent this, so it has it, and all before. If it has lost it since, it finds a gap, and asks again.
		if m.Last && sent.Before(m.ID) {
			f.sent[m.Region] = m.ID
		}
		return nil
	case m.Piece != nil:
		if !sent.Before(m.ID) {
			return nil
		}
		return f.base(ctx, m.Region, m.ID)
	case m.Gone:
		if m.Epoch <= sent.Epoch {
			return nil
		}
		f.sent[m.Region] = m.ID
		return f.add(data)
	case m.Epoch != sent.Epoch || m.Seq != sent.Seq+1:
		return nil
	}
	if before := f.part[m.Region]; m.Number > 0 && (before.ID != m.ID || before.Number+1 != m.Number) {
		return nil
	}
	f.part[m.Region] = m
	if m.Last {
		f.sent[m.Region] = m.ID
		delete(f.part, m.Region)
	}
	return f.add(data)
}

// read reads a message of the log. It has no data if it is lost.
func (f *feed) read(ctx context.Context, sequence uint64) (entry, error) {
	m, err := f.r.message(ctx, sequence)
	if !errors.Is(err, errNoMessage) {
		return m, err
	}
	f.r.mu.Lock()
	first := f.r.first
	f.r.mu.Unlock()
	if sequence < first {
		return entry{}, errors.New("the log was trimmed meanwhile: ask again")
	}
	return entry{}, nil
}

// base sends a base that the log has whole, without the first pieces if the other region has them. It does not send part of
// a base: two regions with the same part would take it from each other, and never get the rest.
func (f *feed) base(ctx context.Context, region string, id ID) error {
	f.r.mu.Lock()
	_, _, whole := f.r.ledger.Base(region, id)
	f.r.mu.Unlock()
	if !whole {
		return nil
	}
	var has, sent uint64
	if i := slices.IndexFunc(f.begun[region], func(b Begun) bool { return b.ID == id }); i >= 0 {
		begun := f.begun[region][i]
		err := f.r.pieces(ctx, region, id, func(m Message, _ []byte) error {
			if m.Number < begun.Pieces {
				return nil
			}
			if m.Piece.Before == begun.Hash { // else it is another base of the same digest
				has = begun.Pieces
			}
			return errEnough
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	err := f.r.pieces(ctx, region, id, func(_ Message, data []byte) error {
		if sent++; sent <= has {
			return nil
		}
		return f.add(data)
	})
	if err == nil {
		f.sent[region] = id
	}
	return err
}

var errEnough = errors.New("no more pieces are wanted")

func (f *feed) add(data []byte) error {
	f.frames = AppendFrame(f.frames, data)
	if len(f.frames) < framesAtOnce {
		return nil
	}
	return f.flush()
}

func (f *feed) flush() error {
	if len(f.frames) == 0 {
		return nil
	}
	f.r.figures.sent.Add(uint64(len(f.frames)))
	if f.pull != nil {
		f.pull.add(len(f.frames))
	}
	err := f.send(f.frames)
	f.frames = f.frames[:0]
	return err
}
