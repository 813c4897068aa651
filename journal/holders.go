package journal

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/cluster/placement"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/checkpoint"
	"github.com/weir-counter/weir/journal/replica"
)

// Holder is a node that holds partitions, as others know it.
type Holder struct {
	Node    string
	Origin  string // 16 hex digits
	Held    replication.PartitionSet
	Self    bool
	Here    bool // it is heard of
	Staying bool // what it should hold is not given to others: it is here, or was a moment ago
}

// Holders are the nodes that have said which partitions they hold, by name. A node
// alone has none.
func (j *Journal) Holders() (list []Holder) {
	if j.shares == nil {
		return nil
	}
	known := map[string]replica.OriginStatus{}
	for _, o := range j.Origins() {
		known[o.Origin] = o
	}
	for _, e := range j.shares.registry.Entries() {
		h := Holder{Node: e.Node, Origin: e.Origin, Held: e.Held}
		switch o, ok := known[e.Origin]; {
		case ok && o.Self:
			h.Self, h.Here, h.Staying = true, true, true
		case ok:
			h.Here = !o.Left && o.Why != replica.Silent
			if e.Epoch != o.Epoch { // it has not said yet what it holds in this life
				h.Held = replication.PartitionSet{}
			}
			h.Staying = h.Here || time.Since(o.Heard) < j.cfg.MoveAfter
		default: // it has only just come, or is long gone
			h.Staying = time.Since(e.At) < j.cfg.MoveAfter
		}
		list = append(list, h)
	}
	return list
}

// holdersOfParts is what checkpoints need of them.
func (j *Journal) holdersOfParts() checkpoint.Holders {
	list, partitions := j.Holders(), j.engine.Config().Partitions
	return checkpoint.Holders{
		Parted: slices.ContainsFunc(list, func(h Holder) bool { return h.Held.Len() < partitions }),
		Of:     func(partition int) []string { return holdersOf(list, partition) },
	}
}

// holdersOf are the nodes that are here and hold a partition, the first the one that
// should most of all.
func holdersOf(list []Holder, partition int) (nodes []string) {
	for _, h := range list {
		if h.Here && h.Held.Has(partition) {
			nodes = append(nodes, h.Node)
		}
	}
	return placement.Rank(nodes, rankName(partition))
}

func rankName(partition int) string { return "partition " + strconv.Itoa(partition) }

// whomToAsk is the other holders of each partition, as origins.
type whomToAsk struct {
	of    [][]string // by partition
	until time.Time
}

// askTable keeps it for a moment: it is asked for with each question.
type askTable struct{ last atomic.Pointer[whomToAsk] }

// askTableEvery is how old it may be. A node that has released a partition since says so.
const askTableEvery = 200 * time.Millisecond

// WhomToAsk are the origins of the other nodes that hold a partition and have not left,
// those that are late last: it may be the journal that stands still. Each node has another
// order of them, so that questions are spread. The list is shared.
func (j *Journal) WhomToAsk(partition int) []string {
	if j.shares == nil {
		return nil
	}
	table := j.shares.ask.last.Load()
	if table == nil || time.Now().After(table.until) {
		table = j.newAskTable()
		j.shares.ask.last.Store(table)
	}
	return table.of[partition]
}

func (j *Journal) newAskTable() *whomToAsk {
	list := slices.DeleteFunc(j.Holders(), func(h Holder) bool { return h.Self || !h.Staying && !h.Here })
	var origins []string
	holders := map[string]Holder{}
	for _, h := range list {
		origins = append(origins, h.Origin)
		holders[h.Origin] = h
	}
	table := &whomToAsk{make([][]string, j.engine.Config().Partitions), time.Now().Add(askTableEvery)}
	for partition := range table.of {
		var late []string
		for _, origin := range placement.Rank(origins, j.cfg.Join.Node+" asks "+strconv.Itoa(partition)) {
			switch h := holders[origin]; {
			case !h.Held.Has(partition):
			case h.Here:
				table.of[partition] = append(table.of[partition], origin)
			default:
				late = append(late, origin)
			}
		}
		table.of[partition] = append(table.of[partition], late...)
	}
	return table
}

// Unheld is how many partitions no running node holds: nobody can answer for them.
func (j *Journal) Unheld() (n int) {
	if j.shares == nil {
		return 0
	}
	list := j.Holders()
	for partition := range j.engine.Config().Partitions {
		if !slices.ContainsFunc(list, func(h Holder) bool { return h.Here && h.Held.Has(partition) }) && !replication.Of(j.engine).Holds(partition) {
			n++
		}
	}
	return n
}
