package region

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Views are the windows of other regions, an engine for each. One goroutine takes what the log has; any may read.
//
// The engine of a region has exactly its hits up to one digest. A base is loaded aside and then replaces the engine, so that a
// reader sees the one or the other. A region that was forgotten has no engine. Usage of limits in other regions is left out.
type Views struct {
	cfg    engine.Config
	others func(regions int) // may be nil

	mu   sync.RWMutex // guards list
	list []view       // by name
}

// view is the engine of one region.
type view struct {
	region string
	*engine.Engine
	to *replica.Holding
}

// NewViews returns no views. cfg is the configuration of their engines, except for partitions and retention, which a base has.
// It calls others, unless that is nil, with the number of views whenever it changes.
func NewViews(cfg engine.Config, others func(regions int)) *Views {
	cfg.Gather = true // a cut has the state
	return &Views{cfg: cfg, others: others}
}

// Read calls f with the engine of each region, by name, until f returns an error. No engine is replaced meanwhile; f must not
// keep one. Read allocates nothing.
func (v *Views) Read(f func(region string, e *engine.Engine) error) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, one := range v.list {
		if err := f(one.region, one.Engine); err != nil {
			return err
		}
	}
	return nil
}

// of returns the view of a region; nil: there is none.
func (v *Views) find(region string) *view {
	if i, found := slices.BinarySearchFunc(v.list, region, compareRegion); found {
		return &v.list[i]
	}
	return nil
}

func compareRegion(one view, region string) int { return cmp.Compare(one.region, region) }

// Take brings the views up to date with an event of the log. pieces calls do with each piece of the event's base. An error is
// about one region, which is then left as it was, or without a view until its next base.
func (v *Views) Take(e Event, pieces func(do func(m Message) error) error) error {
	switch e.Kind {
	case Digest:
		return v.digest(e)
	case Base:
		return v.load(e.Region, pieces)
	case SameBase:
		if v.find(e.Region.Name) == nil { // an earlier base could not be loaded
			return v.load(e.Region, pieces)
		}
	case LedgerGone:
		return v.replace(e.Region.Name, nil)
	}
	return nil
}

func (v *Views) digest(e Event) error {
	to := v.find(e.Region.Name)
	if to == nil {
		return nil // its base could not be loaded, which was logged
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

// load replaces the view of a region by one of the base that the log has.
func (v *Views) load(r *LedgerRegion, pieces func(do func(m Message) error) error) error {
	cfg := v.cfg
	cfg.Partitions, cfg.Retention = r.Note.Partitions, r.Note.Retention
	e, err := engine.New(cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("region %s: base: %w", r.Name, err), v.replace(r.Name, nil))
	}
	var state []byte // of the partition so far
	err = pieces(func(m Message) error {
		if state = append(state, m.Piece.Bytes...); m.Last || !m.Piece.Whole {
			return nil
		}
		whole := state
		if state = nil; len(whole) == 0 {
			return nil
		}
		if err := e.LoadHits(m.Piece.Partition, whole); err != nil {
			return fmt.Errorf("partition %d: %w", m.Piece.Partition, err)
		}
		return nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("region %s: base: %w", r.Name, err), e.Close(), v.replace(r.Name, nil))
	}
	return v.replace(r.Name, e)
}

// replace replaces the engine of a region; nil: by none.
func (v *Views) replace(region string, by *engine.Engine) error {
	v.mu.Lock()
	i, found := slices.BinarySearchFunc(v.list, region, compareRegion)
	var was view
	if found {
		was = v.list[i]
		v.list = slices.Delete(v.list, i, i+1)
	}
	if by != nil {
		v.list = slices.Insert(v.list, i, view{region, by, replica.NewHolding(by)})
	}
	regions := len(v.list)
	v.mu.Unlock()
	if v.others != nil && found != (by != nil) {
		v.others(regions)
	}
	if !found {
		return nil
	}
	return was.Close()
}

// State returns the state of a partition of a region's view, for a base. Only the goroutine that takes messages may call it.
func (v *Views) State(region string, partition int, cut *replication.Cut) ([]byte, error) {
	one := v.find(region)
	if one == nil {
		return nil, fmt.Errorf("there is no view of region %s", region)
	}
	one.Cut(partition, cut, true)
	return cut.State, nil
}

// Close closes all engines.
func (v *Views) Close() (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.list {
		err = errors.Join(err, one.Close())
	}
	v.list = nil
	return err
}
