package weir

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/admission"
	"github.com/weir-counter/weir/internal/replication"
)

// KeyUse is what one key has used of its limit.
type KeyUse struct {
	Key       string
	Limit     Limit // that the key was last asked by
	Used      uint64
	Remaining uint64
	Reset     time.Duration // until the whole burst is there again
}

// Share is the part of the burst that is in use, 0 to 1.
func (u KeyUse) Share() float64 { return float64(u.Used) / float64(u.Limit.Burst) }

// Compare orders as Keys does: negative if u comes before o.
func (u KeyUse) Compare(o KeyUse) int {
	return cmp.Or(cmp.Compare(o.Share(), u.Share()), cmp.Compare(o.Used, u.Used), cmp.Compare(u.Key, o.Key))
}

// Keys returns the keys that have used most of the limit, as a share of their
// burst, the fullest first: those at 1 are denied now. Keys that have used nothing
// are left out. It is what this engine knows, of all partitions.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) Keys(most int) []KeyUse {
	list := fullestUses{most: most}
	for i := range l.engine.cfg.Partitions {
		list.add(l.engine.limits, i, l.name)
	}
	return list.sorted()
}

// KeysInUse returns how many keys have used some of the limit and not got all of it back, as
// far as this engine knows.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) KeysInUse() (keys int) { return l.engine.limits.KeysInUse(l.name) }

func (r *side) LimitKeysIn(in replication.PartitionSet, of *KeyedLimit, most int) ([]KeyUse, error) {
	if err := checkList("n", most); err != nil {
		return nil, err
	}
	e := r.engine
	list := fullestUses{most: most}
	for i := range e.cfg.Partitions {
		if !in.Has(i) {
			continue
		}
		list.add(e.limits, i, of.name)
		if !r.Holds(i) { // or it was released meanwhile
			return nil, errNotHeld
		}
	}
	return list.sorted(), nil
}

// fullestUses gathers the most of the uses that come first.
type fullestUses struct {
	most int
	list []KeyUse
}

func (f *fullestUses) add(ls *admission.Table, partition int, name *admission.Name) {
	ls.Uses(partition, name, func(u admission.KeyUse) { f.list = append(f.list, KeyUse(u)) })
	if len(f.list) > 2*f.most+1024 {
		f.sorted()
	}
}

func (f *fullestUses) sorted() []KeyUse {
	slices.SortFunc(f.list, KeyUse.Compare)
	f.list = f.list[:min(len(f.list), max(f.most, 0))]
	return f.list
}
