package membership

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// Holder is a node that holds partitions, as others know it. What its former process held is left out until the new one reports.
type Holder struct {
	PlacementEntry
	Self    bool
	Here    bool // its messages arrive
	Staying bool // what it should hold is not given to others: it is here, or was a moment ago
}

// HoldersConfig is what a View is made of.
type HoldersConfig struct {
	Node      string        // this one's name
	Replicas  int           // nodes that hold a partition; 0: all
	MoveAfter time.Duration // after which what a node that is away should hold is given to others
	Engine    *engine.Engine
	Log       *slog.Logger
	Origins   func() []replica.OriginStatus // the nodes that are known
}

// View is who holds which partitions, as this node knows it. It is safe for many goroutines.
type View struct {
	*Registry
	cfg      HoldersConfig
	ask      atomic.Pointer[askTable]
	settings atomic.Pointer[func() Settings]

	mu     sync.Mutex           // guards differ
	differ map[string]differing // by node
}

const bucket = "WEIR_SHARES"

// OpenHolders reads who holds what, and releases the partitions that are others' to hold, before
// anything is loaded into the engine. What this node held in the life before and too few others say that they hold
// is loaded all the same. Whether these are alive is not known yet: the Keeper sees to that.
func OpenHolders(ctx context.Context, nats *transport.Node, cfg HoldersConfig) (*View, error) {
	v := &View{cfg: cfg}
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		v.Registry, err = OpenRegistry(ctx, nats.JetStream(), bucket, nats.Replicas(replica.Replicas), cfg.Log)
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := v.Entries()
	for partition := range v.partitions() {
		if !loads(entries, cfg.Node, partition, cfg.Replicas) {
			v.engine().Release(partition)
		}
	}
	return v, nil
}

func (v *View) engine() *engine.Engine { return v.cfg.Engine }
func (v *View) partitions() int        { return v.cfg.Engine.Config().Partitions }

// prefers reports whether this node should hold a partition, if those given are there.
func (v *View) prefers(nodes []string, partition int) bool {
	return slices.Contains(Preferred(nodes, partition, v.cfg.Replicas), v.cfg.Node)
}

// List are the nodes that have said which partitions they hold, by name.
func (v *View) List() (list []Holder) {
	known := map[string]replica.OriginStatus{}
	for _, o := range v.cfg.Origins() {
		known[o.Origin] = o
	}
	for _, e := range v.Entries() {
		h := Holder{PlacementEntry: e}
		switch o, ok := known[e.Origin]; {
		case ok && o.Self:
			h.Self, h.Here, h.Staying = true, true, true
		case ok:
			h.Here = !o.Left && o.Why != replica.Silent
			if e.Epoch != o.Epoch { // its new process has not said yet what it holds
				h.Held, h.Settings = replication.PartitionSet{}, nil
			}
			h.Staying = h.Here || time.Since(o.Heard) < v.cfg.MoveAfter
		default: // it has only just come, or is long gone
			h.Staying = time.Since(e.At) < v.cfg.MoveAfter
		}
		list = append(list, h)
	}
	return list
}

// HoldersOf are the nodes that are here and hold a partition, the first the one that
// should most of all.
func HoldersOf(list []Holder, partition int) (nodes []string) {
	for _, h := range list {
		if h.Here && h.Held.Has(partition) {
			nodes = append(nodes, h.Node)
		}
	}
	return RankFor(nodes, partition)
}

// askTable is the other holders of each partition, as origins. It is kept for a moment, because each question asks for it.
type askTable struct {
	holders [][]string // by partition
	few     int        // partitions that fewer running nodes hold than should
	until   time.Time
}

// askTableEvery is how old it may be. A node that has released a partition since says so.
const askTableEvery = 200 * time.Millisecond

// WhomToAsk returns the origins of the other nodes that hold a partition and have not left. Late nodes come last, not
// never, because the journal may be what stands still. Each node has another order, which spreads the questions. The
// list is shared.
func (v *View) WhomToAsk(partition int) []string { return v.askTable().holders[partition] }

// UnderReplicated is how many partitions fewer running nodes hold than should: the loss of one more may leave
// some without any. Where fewer nodes are known than should hold each, all of them should.
func (v *View) UnderReplicated() int { return v.askTable().few }

func (v *View) askTable() *askTable {
	table := v.ask.Load()
	if table == nil || time.Now().After(table.until) {
		table = v.newAskTable()
		v.ask.Store(table)
	}
	return table
}

// underReplicated counts for UnderReplicated. With all nodes as replicas none is missing: a node serves once it holds all.
func (v *View) underReplicated(list []Holder) (few int) {
	want := min(v.cfg.Replicas, len(list))
	for partition := range v.partitions() {
		have := 0
		for _, h := range list {
			if h.Self && v.engine().Keyspace().Holds(partition) || !h.Self && h.Here && h.Held.Has(partition) {
				have++
			}
		}
		if have < want {
			few++
		}
	}
	return few
}

func (v *View) newAskTable() *askTable {
	list := v.List()
	few := v.underReplicated(list)
	list = slices.DeleteFunc(list, func(h Holder) bool { return h.Self || !h.Staying && !h.Here })
	var origins []string
	holders := map[string]Holder{}
	for _, h := range list {
		origins = append(origins, h.Origin)
		holders[h.Origin] = h
	}
	table := &askTable{make([][]string, v.partitions()), few, time.Now().Add(askTableEvery)}
	for partition := range table.holders {
		var late []string
		for _, origin := range Rank(origins, v.cfg.Node+" asks "+strconv.Itoa(partition)) {
			switch h := holders[origin]; {
			case !h.Held.Has(partition):
			case h.Here:
				table.holders[partition] = append(table.holders[partition], origin)
			default:
				late = append(late, origin)
			}
		}
		table.holders[partition] = append(table.holders[partition], late...)
	}
	return table
}

// Unheld is how many partitions no running node holds: nobody can answer for them.
func (v *View) Unheld() (n int) {
	list := v.List()
	for partition := range v.partitions() {
		if !slices.ContainsFunc(list, func(h Holder) bool { return h.Here && h.Held.Has(partition) }) && !v.engine().Keyspace().Holds(partition) {
			n++
		}
	}
	return n
}
