package durable

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// reportJournal writes what the journal takes: that is the same whoever holds what.
func reportJournal(out io.Writer, all []sizeFigures) {
	fmt.Fprintf(out, "The journal, which each node reads. Bytes are of messages, without what NATS adds. A node that has all asks %d times a second for more.\n\n", time.Second/replica.FollowEvery)
	fmt.Fprint(out, "| nodes | flush interval | messages/s | entries/s | journal | bytes per entry | a node writes | those that keep it send, together | at rest |\n",
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		if f.load.replicas > 0 {
			continue
		}
		fmt.Fprintf(out, "| %d | %v | %d | %d | %s/s | %.0f | %s/s | %s/s | %d messages/s, %s/s |\n", f.load.nodes, f.load.flushEvery,
			f.busy.messages, f.busy.entries, sizeBytes(f.busy.bytes), float64(f.busy.bytes)/float64(max(1, f.busy.entries)),
			sizeBytes(f.busy.bytes/f.load.nodes), sizeBytes(f.sent()), f.idle.messages, sizeBytes(f.idle.bytes))
	}
	fmt.Fprintln(out)
}

// reportNodes writes what one node does and keeps.
func reportNodes(out io.Writer, all []sizeFigures) {
	fmt.Fprint(out, "One node: shares of one core, medians of its seconds. Passed over: by who holds nothing. Bytes: of the keys that it holds.\n\n")
	fmt.Fprint(out, "| nodes | flush interval | holders | to cut | ns per own entry | to follow | ns per entry | passed over: ns | at rest | keys held | bytes |\n",
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(out, "| %d | %v | %s | %.1f %% | %.0f | %.1f %% | %.0f | %.0f | %.2f %% | %d | %s |\n", f.load.nodes, f.load.flushEvery, f.load.holders(),
			100*f.cutShare, f.cutEach, 100*f.followShare, f.followEach, f.passEach, 100*f.idleShare, f.held, sizeBytes(int(f.bytes)))
	}
	fmt.Fprintln(out)
}

// reportHits writes what a hit costs all nodes together, which is how the cluster grows.
func reportHits(out io.Writer, all []sizeFigures) {
	fmt.Fprint(out, "A hit: ns of processor time on all nodes together, medians of seconds; without HTTP and NATS.\n\n")
	fmt.Fprint(out, "| nodes | flush interval | holders | counted on its node | cut and encoded there | followed by all | sum |\n", "|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(out, "| %d | %v | %s | %.0f | %.0f | %.0f | %.0f |\n", f.load.nodes, f.load.flushEvery, f.load.holders(), f.hitEach, f.cutHit, f.followHit, f.hitEach+f.cutHit+f.followHit)
	}
	fmt.Fprintln(out)
}

// reportOnce writes what depends on the number of nodes alone.
func reportOnce(t testing.TB, out io.Writer, all []sizeFigures) {
	fmt.Fprint(out, "One node, by the number of them: bytes in memory, and processor time.\n\n")
	fmt.Fprint(out, "| nodes | progress | registry | freshness of a read | who should hold what, once a second |\n", "|---|---|---|---|---|\n")
	done := 0
	for _, f := range all {
		nodes, partitions := f.load.nodes, f.load.partitions
		if nodes == done {
			continue
		}
		done = nodes
		now := time.UnixMilli(1_800_000_000_000)
		r := heardOf(t, nodes, 1, now)
		var names []string
		for _, o := range r.Origins(now) {
			names = append(names, o.Node)
		}
		fmt.Fprintf(out, "| %d | %s | %s | %.1f µs | %.1f ms |\n", nodes, sizeBytes(int(progressBytes(t, nodes, partitions, now))), sizeBytes(registryBytes(t, nodes, partitions)),
			medianCost(t, 1000, func() { r.Freshness(now) }).Seconds()*1e6,
			medianCost(t, 1, func() {
				for p := range partitions {
					membership.Preferred(names, p, 3)
				}
			}).Seconds()*1e3)
	}
}

// sizeBytes is a number of bytes to read.
func sizeBytes(n int) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%.0f KB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}
