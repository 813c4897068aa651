package region

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// This part keeps the windows of other regions, an engine for each, by what the log has of them.
//
// Invariants: a region's engine has exactly its hits up to one digest; a base is built aside and then stands in
// place of the engine before it, so that a reader sees the one or the other; of a region that is gone nothing is kept. What
// others do with their limits is left out.

// Views are the windows of other regions. One goroutine takes what the log has; any may read.
type Views struct {
	cfg    engine.Config
	others func(regions int) // may be nil

	mu   sync.RWMutex // guards by and list
	by   map[string]*viewEngine
	list []named         // by, in order of the names
	next map[begun]*base // of the goroutine that takes: the bases that have begun, by the ledger
}

// viewEngine is the engine of one region.
type viewEngine struct {
	*engine.Engine
	to *replica.Holding
}

// named is an engine with its region's name.
type named struct {
	region string
	*viewEngine
}

// begun names a base that has begun.
type begun struct {
	region string
	ID
}

// base is one that is built.
type base struct {
	engine *viewEngine // nil until the first piece: partitions and retention are told with its state
	state  []byte      // of the partition whose pieces come
	err    error       // it can't be used
}

// NewViews returns no views. cfg is that of their engines but for partitions and retention, which the regions tell. others is
// told how many there are, when that changes; nil: nobody is.
func NewViews(cfg engine.Config, others func(regions int)) *Views {
	cfg.Gather = true // a cut has the state
	return &Views{cfg: cfg, others: others, by: map[string]*viewEngine{}, next: map[begun]*base{}}
}

// Read calls f with the engine of each region, in order of their names, none of which is put in another's place
// meanwhile. f ends it with an error, and keeps no engine. It allocates nothing.
func (v *Views) Read(f func(region string, e *engine.Engine) error) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, of := range v.list {
		if err := f(of.region, of.Engine); err != nil {
			return err
		}
	}
	return nil
}

// Take brings the views up to date with an event of the log. An error is of one region, which then is as it was.
func (v *Views) Take(e Event) (err error) {
	switch e.Kind {
	case Digest:
		err = v.digest(e)
	case LedgerPiece:
		err = v.piece(e.Piece)
	case Base:
		err = v.put(e.Region, e.Piece)
	case LedgerGone:
		err = v.replace(e.Region.Name, nil)
	default:
		return nil
	}
	for of := range v.next {
		if of.region == e.Region.Name && !e.Region.HasBegun(of.ID) {
			v.drop(of)
		}
	}
	return err
}

func (v *Views) digest(e Event) error {
	to := v.by[e.Region.Name]
	if to == nil {
		return nil // its base could not be loaded, which was said
	}
	for _, p := range e.Parts {
		for _, b := range p.Batches {
			if b.Partition >= to.Config().Partitions || len(b.Entries) == 0 {
				continue
			}
			if err := to.to.Count(b, false, false); err != nil {
				return fmt.Errorf("region %s, partition %d: %w", e.Region.Name, b.Partition, err)
			}
		}
	}
	return nil
}

// piece takes a piece of a base that is not its last.
func (v *Views) piece(m Message) error {
	region, of := m.Region, begun{m.Region, m.ID}
	if m.Number == 0 {
		v.drop(of)
		v.next[of] = &base{}
	}
	b := v.next[of]
	if b == nil || b.err != nil {
		return nil
	}
	if b.state = append(b.state, m.Piece.Bytes...); !m.Piece.Whole {
		return nil
	}
	state := b.state
	b.state = nil
	if len(state) == 0 { // nothing was ever hit there
		return nil
	}
	if b.engine == nil {
		of, err := replication.ReadState(state)
		if err == nil {
			b.engine, err = v.newEngine(int(of.Partitions), int64(of.Retention))
		}
		if err != nil {
			b.err = err
			return fmt.Errorf("region %s: base: %w", region, err)
		}
	}
	if err := b.engine.Engine.LoadHits(m.Piece.Partition, state); err != nil {
		b.err = err
		return fmt.Errorf("region %s: base, partition %d: %w", region, m.Piece.Partition, err)
	}
	return nil
}

// drop forgets a base that is not whole.
func (v *Views) drop(of begun) {
	if b := v.next[of]; b != nil && b.engine != nil {
		_ = b.engine.Close() // of memory alone
	}
	delete(v.next, of)
}

// put makes a base what is read whose last piece has come.
func (v *Views) put(r *LedgerRegion, last Message) error {
	of := begun{r.Name, last.ID}
	if last.Number == 0 { // nothing was ever hit; what is there was left unfinished
		v.drop(of)
	}
	b := v.next[of]
	delete(v.next, of)
	if b == nil {
		b = &base{}
	}
	if b.err != nil {
		return errors.Join(b.err, v.replace(r.Name, nil))
	}
	if b.engine == nil {
		var err error
		if b.engine, err = v.newEngine(r.Note.Partitions, int64(r.Note.Retention.Seconds())); err != nil {
			return errors.Join(fmt.Errorf("region %s: %w", r.Name, err), v.replace(r.Name, nil))
		}
	}
	return v.replace(r.Name, b.engine)
}

func (v *Views) replace(region string, by *viewEngine) error {
	v.mu.Lock()
	was := v.by[region]
	if by == nil {
		delete(v.by, region)
	} else {
		v.by[region] = by
	}
	v.list = slices.DeleteFunc(v.list, func(of named) bool { return of.region == region })
	if by != nil {
		v.list = append(v.list, named{region, by})
		slices.SortFunc(v.list, func(a, b named) int { return cmp.Compare(a.region, b.region) })
	}
	regions := len(v.list)
	v.mu.Unlock()
	if v.others != nil && (was == nil) != (by == nil) {
		v.others(regions)
	}
	if was == nil {
		return nil
	}
	return was.Close()
}

func (v *Views) newEngine(partitions int, retention int64) (*viewEngine, error) {
	cfg := v.cfg
	cfg.Partitions, cfg.Retention = partitions, time.Duration(retention)*time.Second
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	return &viewEngine{e, replica.NewHolding(e)}, nil
}

// State appends the state of a partition of a region's view, for a base. Only the goroutine that takes messages may call it.
func (v *Views) State(region string, partition int, cut *replication.Cut) ([]byte, error) {
	e := v.by[region]
	if e == nil {
		return nil, fmt.Errorf("there is no view of region %s", region)
	}
	e.Engine.Cut(partition, cut, true)
	return cut.State, nil
}

// Close ends all engines.
func (v *Views) Close() (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range v.by {
		err = errors.Join(err, e.Close())
	}
	for _, b := range v.next {
		if b.engine != nil {
			err = errors.Join(err, b.engine.Close())
		}
	}
	clear(v.by)
	v.list = nil
	clear(v.next)
	return err
}
