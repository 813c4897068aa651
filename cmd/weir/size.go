package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

// Measured costs. docs/size.md names the command that prints each of them.
const (
	flushesPerSecond = 10

	flushBytes     = 40 // of the journal, per flush of a node
	partitionBytes = 11 // of the journal, per partition in a flush
	entryBytes     = 4  // of the journal and of a link, per key in a flush or digest, in addition to its name

	digestBytes          = 120 // of a link, per digest: one a second
	digestPartitionBytes = 26  // of a link, per partition in a digest

	historyBytes = 34 // per key and day with hits

	partitions = 256

	requestCPU = 46e-6   // seconds of a core for a request over HTTP: a hit, a count or a decision
	followCPU  = 0.35e-6 // seconds of a core for a key in the flush of another node

	processFactor, processBytes = 1.25, 144 << 20 // what a process takes: the factor times its budget, and the bytes
	leastBudget                 = 64 << 20
	journalBytes                = 128 << 20 // two intervals between snapshots
)

// workload is what weir size is asked about.
type workload struct {
	keys               float64
	hits, reads        float64 // per second and node
	retention, history time.Duration
	nodes, regions     int
	keyBytes           int
}

// sizing is what a workload needs. Rates are in bytes per second.
type sizing struct {
	KeyMemory  int64   `json:"key_memory_bytes"`     // of one key
	Budget     int64   `json:"memory_setting_bytes"` // --memory
	Process    int64   `json:"process_bytes"`        // of a node
	Disk       int64   `json:"disk_bytes"`           // of a node, without history
	History    int64   `json:"history_bytes"`
	DiskWrites float64 `json:"disk_write_bytes_per_s"` // of a node
	Cluster    float64 `json:"cluster_bytes_per_s"`    // that all nodes of a region send to each other
	Link       float64 `json:"link_bytes_per_s"`       // that a region sends to each other region
	Cores      float64 `json:"cores"`                  // of a node
}

// newSizing computes what each node of a workload needs.
func newSizing(l workload) (s sizing, err error) {
	hits := l.hits * float64(l.nodes) // of a region
	if s.KeyMemory, err = keyMemory(l, hits); err != nil {
		return s, err
	}
	keys := int64(l.keys) * s.KeyMemory
	s.Budget = max(leastBudget, keys*5/4)
	others := keys * int64(l.regions-1)
	s.Process = int64(processFactor*float64(s.Budget)) + processBytes + others
	s.Disk = 2*(keys+others) + journalBytes
	days := math.Ceil(l.history.Hours() / 24)
	s.History = int64(historyBytes * days * distinct(l.keys, hits*86400))
	entry := float64(entryBytes + l.keyBytes)
	entries := distinct(l.keys, l.hits/flushesPerSecond)
	s.DiskWrites = float64(l.nodes) * flushesPerSecond * (flushBytes + partitionBytes*min(partitions, entries) + entry*entries)
	s.Cluster = s.DiskWrites * float64(l.nodes-1)
	if l.regions > 1 {
		entries := distinct(l.keys, hits)
		s.Link = digestBytes + digestPartitionBytes*min(partitions, entries) + entry*entries
	}
	s.Cores = requestCPU*(l.hits+l.reads) + followCPU*flushesPerSecond*entries*float64(l.nodes-1)
	return s, nil
}

// distinct is how many of so many keys n hits reach, if all keys are hit alike.
func distinct(keys, n float64) float64 { return keys * -math.Expm1(-n/keys) }

// Bounds of what keyMemory measures. It takes less than a second, and some seconds for a retention of decades.
const (
	sampledKeys = 3000
	sampledHits = 2_000_000
	leastSample = 4
	mostEach    = 100_000
)

// keyMemory measures in an engine what a key takes at the end of the retention, if all keys are hit alike.
func keyMemory(l workload, hits float64) (int64, error) {
	seconds := l.retention.Seconds()
	each := max(1, min(hits*seconds/l.keys, seconds, mostEach)) // hits within a second share a slot, and old slots are wide
	e, err := weir.New(weir.Config{Clock: weir.EventClock, Retention: l.retention, Partitions: 1, Memory: math.MaxInt64 / 4})
	if err != nil {
		return 0, err
	}
	defer e.Close()
	begin := time.Now().Unix() - int64(seconds)
	empty, keys := e.Stats().Bytes, int64(max(leastSample, min(sampledKeys, sampledHits/each)))
	for i := range int64(each) {
		at := time.Unix(begin+int64(float64(i)*seconds/each), 0)
		for k := range keys {
			if _, err := e.HitAt(at, fmt.Sprintf("%0*d", l.keyBytes, k), 1); err != nil {
				return 0, err
			}
		}
	}
	return (e.Stats().Bytes - empty) / keys, nil
}

func newSize(w *cli.World) *cobra.Command {
	var r cli.Remote // only prints
	l := workload{keys: 1e6, hits: 200, reads: 1000, retention: 30 * 24 * time.Hour, history: 365 * 24 * time.Hour, nodes: 1, regions: 1, keyBytes: 20}
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Estimate the memory, disk, network and cores that a workload needs",
		Long: `Estimate the memory, disk, network and cores that a workload needs. The memory of a key
is measured in this process; the other costs are constants of docs/size.md. All keys are
hit equally often, and each request has one hit or one read: the worst case.`,
		Example: "  weir size --keys 1M --hits 200/s --retention 7d --nodes 3 --regions 2",
		RunE: cli.Work(w, func(*cobra.Command, []string, cli.Sources) error {
			s, err := newSizing(l)
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, s, func(t *cli.Table) { printSizing(t, l, s) })
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(quantity(&l.keys), "keys", "keys with hits within the retention, in each region")
	flags.Var(quantity(&l.hits), "hits", "hits per second on each node")
	flags.Var(quantity(&l.reads), "reads", "counts and decisions per second on each node")
	flags.Var(cli.Duration(&l.retention), "retention", "how long hits are kept, as for weir serve")
	flags.Var(cli.Delay(&l.history), "history", "how long days are kept in the history, 0 for none")
	flags.Var(cli.Number(&l.nodes), "nodes", "nodes in each region")
	flags.Var(cli.Number(&l.regions), "regions", "regions that count together")
	flags.Var(cli.Number(&l.keyBytes), "key-bytes", "mean length of a key")
	flags.BoolVar(&r.JSON, "json", false, "print JSON")
	return cmd
}

// quantity is a flag of a number such as 1M or 200/s.
func quantity(to *float64) cli.Value[float64] {
	return cli.NewValue(to, "number", func(text string) (float64, error) {
		number, factor := strings.TrimSuffix(text, "/s"), 1.
		for suffix, by := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9} {
			if before, found := strings.CutSuffix(number, suffix); found {
				number, factor = before, by
				break
			}
		}
		n, err := strconv.ParseFloat(number, 64)
		if n *= factor; err != nil || !(n >= 1 && n <= 1e12) {
			return 0, fmt.Errorf("%q: write a number from 1 to 1000G, such as 200 or 1M", text)
		}
		return n, nil
	}, func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) })
}

func printSizing(t *cli.Table, l workload, s sizing) {
	size := func(bytes int64) string { return units.FormatSize(bytes) }
	rate := func(bytes float64) string { return units.FormatSize(int64(math.Ceil(bytes))) + "/s" }
	t.Row("memory of a key", size(s.KeyMemory), "measured: "+units.FormatDuration(l.retention)+" of hits")
	t.Row("--memory", size(s.Budget), "keys and a quarter, at least "+size(leastBudget))
	t.Row("memory", size(s.Process), "of each node, with the keys of other regions")
	t.Row("disk", size(s.Disk), "of each node, at most")
	t.Row("history", size(s.History), "of each node, after "+units.FormatDuration(l.history))
	t.Row("disk writes", rate(s.DiskWrites), "of each node")
	t.Row("cluster", rate(s.Cluster), "sent by all nodes of a region together")
	t.Row("link", rate(s.Link), "from each region to each other region")
	t.Row("cores", strconv.FormatFloat(s.Cores, 'f', 2, 64), "of each node")
}
