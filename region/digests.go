package region

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/tail"
	"github.com/weir-counter/weir/region/digest"
)

// restateEvery is how often a digest tells the totals of all partitions, so that a hole is found where no batch follows.
const restateEvery = time.Minute

// digest writes the next digest of this region: all that the journal has since the last one. Where that can't be, a new
// epoch begins.
func (r *Region) digest(ctx context.Context) error {
	upTo, asOf, late, err := r.journal.Moment(ctx)
	if err != nil {
		return err
	}
	return r.digestTo(ctx, upTo, asOf, late)
}

func (r *Region) digestTo(ctx context.Context, upTo uint64, asOf time.Time, late []replica.OriginStatus) error {
	if own := r.ledger.Region(r.cfg.Name); own != nil && own.ID != r.after {
		r.tail = nil // another node has written since
	}
	if r.tail == nil && !r.resume() {
		return r.begin(ctx)
	}
	_, last, err := r.journal.Bounds(ctx)
	if err != nil {
		return err
	}
	if r.tail.Next() > last+1 {
		r.log.Warn("regions: the journal ends before what the last digest has; a new epoch of digests begins", "region", r.cfg.Name)
		return r.begin(ctx)
	}
	switch err := r.journal.ReadFlushes(ctx, r.tail, upTo, r.addFlush); {
	case errors.Is(err, journal.ErrTrimmed):
		r.log.Warn("regions: the journal begins after what the last digest has; a new epoch of digests begins", "region", r.cfg.Name)
		return r.begin(ctx)
	case err != nil:
		r.tail = nil
		return err
	}
	parts := r.cut(asOf, late)
	for _, part := range parts {
		if err := r.append(ctx, entry{data: part}); err != nil {
			return err
		}
	}
	r.after = r.ledger.Region(r.cfg.Name).ID
	return nil
}

func (r *Region) addFlush(flush []record.Part) error {
	for _, p := range flush {
		for _, b := range p.Batches {
			r.sum.Add(r.tell(b))
		}
	}
	return nil
}

// tell is what the region tells others of a batch.
func (r *Region) tell(b record.Batch) record.Batch {
	if len(r.cfg.Keys) == 0 {
		return b
	}
	return b.Only(r.cfg.Keys.Tells)
}

// resume finds out where the log's last digest of this region left off, and tells whether one can go on there.
func (r *Region) resume() bool {
	own := r.ledger.Region(r.cfg.Name)
	if own == nil || own.Gone || own.Note == nil || own.ID.Before(r.foreign) {
		return false
	}
	if n := own.Note; n.Journal != r.journal.ID() || n.Partitions != r.engine.Partitions || n.Retention != r.engine.Retention || !slices.Equal(n.Keys, r.cfg.Keys) {
		return false
	}
	r.tail, r.sum, r.after = tail.NewFlushes(own.Note.At), digest.NewSum(r.engine.Partitions), own.ID
	return true
}

// cut makes a digest of the sum.
func (r *Region) cut(asOf time.Time, late []replica.OriginStatus) [][]byte {
	own := r.ledger.Region(r.cfg.Name)
	e := record.NewEncoder(record.Incarnation{Origin: digest.OriginOf(r.cfg.Name), Epoch: own.Epoch}, r.engine.Partitions)
	e.Node, e.Flush = r.cfg.Name, own.Seq
	copy(e.Seqs, own.Audit.Seqs)
	copy(e.Totals, own.Audit.Totals)
	e.Begin(asOf)
	r.sum.Cut(e)
	if now := r.now(); now.Sub(r.restated) > restateEvery {
		r.restated = now
		for partition := range r.engine.Partitions {
			e.Restate(partition)
		}
	}
	return e.End([][]byte{r.note(late).Encode()})
}

// note is that of a digest or base which reaches to where the tail is.
func (r *Region) note(late []replica.OriginStatus) digest.Note {
	n := digest.Note{
		Journal: r.journal.ID(), Partitions: r.engine.Partitions, Retention: r.engine.Retention, Every: r.cfg.Every, At: r.tail.Position(), Keys: r.cfg.Keys,
	}
	for _, l := range late {
		n.Late = append(n.Late, digest.Late{Node: l.Node, Since: l.AsOf.UnixMilli()})
	}
	r.mu.Lock()
	r.unread = r.tail.Lost()
	r.mu.Unlock()
	return n
}

// beginEvery is how often a new epoch may begin.
const beginEvery = 5 * time.Second

// errBegun is why no epoch begins: one did a moment ago.
var errBegun = errors.New("an epoch of this region's digests began a moment ago: another region may have the same name")

// begin begins a new epoch of digests, with a base.
func (r *Region) begin(ctx context.Context) error {
	now := r.now()
	if now.Sub(r.renewed) < beginEvery {
		return errBegun
	}
	id := digest.ID{Epoch: max(uint64(now.UnixMilli()), r.foreign.Epoch+1), Seq: 1}
	if own := r.ledger.Region(r.cfg.Name); own != nil {
		id.Epoch = max(id.Epoch, own.Epoch+1)
	}
	r.tail = nil
	if err := r.writeOwnBase(ctx, id); err != nil {
		return err
	}
	r.renewed = now
	r.log.Info("regions: a new epoch of this region's digests began", "region", r.cfg.Name, "epoch", id.Epoch)
	return nil
}
