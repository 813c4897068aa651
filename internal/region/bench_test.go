package region

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
)

// benchFlushes returns a second of flushes of some nodes that hit keys evenly, in parts, and how many entries they have.
func benchFlushes(b *testing.B, keys int) (parts [][]byte, entries int) {
	b.Helper()
	*fleetKeys, *fleetHits, *fleetCells, *fleetNodes = keys, 5000, 1, 10
	f := &fleet{t: b, rng: newFleetRand()}
	f.nameKeys()
	c := f.cell(1, *fleetNodes)
	defer c.views.Close()
	for range 10 {
		c.journal.write(c)
	}
	return c.journal.messages, c.journal.waiting
}

// BenchmarkDigest is what the node that writes digests does for each entry of its nodes' flushes: it decodes, adds up and cuts.
func BenchmarkDigest(b *testing.B) {
	parts, entries := benchFlushes(b, 20_000)
	sum := NewSum(fleetPartitions)
	e := record.NewEncoder(record.Incarnation{Origin: 1, Epoch: 1}, fleetPartitions)
	e.Node = "eu"
	var took time.Duration
	cpu(&took, func() {
		for b.Loop() {
			addAll(b, sum, parts)
			e.Begin(simNow)
			sum.Cut(e)
			e.End([][]byte{{}})
		}
	})
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/float64(entries), "cpu-ns/entry")
}

// BenchmarkFollow is what each node does for each entry of other regions' digests: it decodes and counts.
func BenchmarkFollow(b *testing.B) {
	parts, _ := benchFlushes(b, 20_000)
	sum := NewSum(fleetPartitions)
	addAll(b, sum, parts)
	note := Note{Journal: 1, Partitions: fleetPartitions, Retention: time.Hour, Every: time.Second}
	e := record.NewEncoder(record.Incarnation{Origin: OriginOf("eu"), Epoch: 1}, fleetPartitions)
	e.Node = "eu"
	e.Begin(simNow)
	sum.Cut(e)
	messages := e.End([][]byte{note.Encode()})
	entries := 0
	for _, data := range messages {
		m, err := Decode(data)
		if err != nil {
			b.Fatal(err)
		}
		for _, batch := range m.Part.Batches {
			entries += len(batch.Deltas())
		}
	}
	v := NewViews(engine.Config{Memory: 64 << 20, Now: func() time.Time { return simNow }}, nil)
	defer v.Close()
	region := &LedgerRegion{Name: "eu", Note: &note}
	if err := v.Take(Event{Kind: Base, Region: region}, func(func(Message) error) error { return nil }); err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	cpu(&took, func() {
		for b.Loop() {
			var parts []record.Part
			for _, data := range messages {
				m, err := Decode(data)
				if err != nil {
					b.Fatal(err)
				}
				parts = append(parts, m.Part)
			}
			if err := v.Take(Event{Kind: Digest, Region: region, Parts: parts}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/float64(entries), "cpu-ns/entry")
}

// addAll adds the batches of flushes to a sum.
func addAll(b *testing.B, sum *Sum, parts [][]byte) {
	b.Helper()
	for _, part := range parts {
		p, err := record.DecodePart(part)
		if err != nil {
			b.Fatal(err)
		}
		for _, batch := range p.Batches {
			sum.Add(batch)
		}
	}
}
