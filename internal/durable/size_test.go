package durable

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

var (
	sizeNodes   = flag.String("size.nodes", "3", "numbers of nodes that TestClusterSize measures, separated by commas")
	sizeKeys    = flag.Int("size.keys", 1000, "active keys of all nodes together")
	sizeHits    = flag.Int("size.hits", 1000, "hits of each node, per second")
	sizeZipf    = flag.Float64("size.zipf", 0, "exponent of the keys' traffic, above 1; 0: even")
	sizeFollow  = flag.Int("size.follow", 4, "how many of the nodes follow the journal; all do the same")
	sizeStream  = flag.Int("size.stream", 200, "small messages that a real stream of three is written")
	sizeServers = flag.Int("size.servers", 4, "servers of which three keep it")
	sizeOut     = flag.String("size.out", "", "file for the tables; empty: the test's log")
)

// TestClusterSize tells how traffic and memory grow with the nodes (make cluster-size).
func TestClusterSize(t *testing.T) {
	report := new(strings.Builder)
	var all []sizeFigures
	for _, word := range strings.Split(*sizeNodes, ",") {
		nodes, err := strconv.Atoi(word)
		if err != nil || nodes < 1 || nodes > 1000 {
			t.Fatalf("-size.nodes %s: numbers from 1 to 1000 are needed", *sizeNodes)
		}
		for _, flushEvery := range []time.Duration{100 * time.Millisecond, time.Second} {
			for _, replicas := range []int{0, 3} {
				if replicas > 0 && nodes <= replicas {
					continue
				}
				all = append(all, measureSize(t, sizeLoad{
					nodes: nodes, replicas: replicas, partitions: 256, flushEvery: flushEvery,
					keys: *sizeKeys, hits: *sizeHits, zipf: *sizeZipf, follow: *sizeFollow,
				}))
			}
		}
	}
	fmt.Fprintf(report, "%d active keys, %d hits a second on each node, 256 partitions.\n\n", *sizeKeys, *sizeHits)
	reportJournal(report, all)
	reportNodes(report, all)
	reportHits(report, all)
	reportOnce(t, report, all)
	reportStream(t, report, *sizeServers, *sizeStream)
	if *sizeOut == "" {
		t.Log("\n" + report.String())
		return
	}
	if err := os.WriteFile(*sizeOut, []byte(report.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The measured cluster is a real one: all hits are counted by whoever holds their key.
func TestClusterSizeCounts(t *testing.T) {
	t.Parallel()
	for _, holders := range []int{0, 2} {
		load := sizeLoad{nodes: 3, replicas: holders, partitions: 16, flushEvery: 100 * time.Millisecond, keys: 60, hits: 200, follow: 3}
		w := newSizeWorld(t, load)
		w.written = sizeJournal{}
		w.everyKey()
		w.busy(time.Second)
		if got := w.written.messages; got != 3*11 {
			t.Errorf("%d messages of 3 nodes in 11 flush intervals", got)
		}
		var took, counted uint64
		keys := 0
		for _, n := range w.nodes {
			took += n.took
			stats := n.e.Stats()
			all, err := n.e.CountIn(n.e.HeldPartitions(), n.e.Now(), engine.AllKeys, engine.MaxWindow)
			if err != nil {
				t.Fatal(err)
			}
			counted, keys = counted+all.Lower, keys+stats.Keys
			if lost := n.r.NewFindings(); len(lost) > 0 {
				t.Errorf("%s: %v", n.name, lost)
			}
		}
		times := load.replicas
		if times == 0 {
			times = load.nodes
		}
		if counted != uint64(times)*took || keys != times*load.keys {
			t.Errorf("%d holders: %d hits of %d keys, want %d times %d of %d", times, counted, keys, times, took, load.keys)
		}
		w.idle(time.Second) // until the last flush is a heartbeat ago
		w.written = sizeJournal{}
		w.idle(5 * time.Second)
		if got := w.written; got.messages != 3*5 || got.entries != 0 {
			t.Errorf("at rest, %d messages with %d entries of 3 nodes in 5 s", got.messages, got.entries)
		}
		w.close()
	}
}
