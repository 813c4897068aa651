package record

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// readPlainly reads entries of hits as their format is written down, one field after the other.
func readPlainly(entries []byte) (list []replication.Delta, sound bool) {
	r := newReader(entries)
	key, at := "", int64(0)
	for r.Len() > 0 {
		head := r.Uvarint()
		if length := head >> 1; length > 0 {
			key = string(r.Bytes(int(min(length, 1<<20))))
		}
		d := replication.Delta{Key: key}
		if head&1 == 0 {
			at += r.Varint()
			d.At, d.N = at, r.Uvarint()
			if d.N == 0 || at < 0 || at > window.MaxTime {
				return nil, false
			}
		}
		if r.Failed() || key == "" || len(key) > engine.MaxKeyBytes {
			return nil, false
		}
		list = append(list, d)
	}
	return list, !r.Failed()
}

// Entries that were written, changed in some bytes and cut anywhere, are read as by the plain reader.
func TestEntriesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	sound := 0
	for round := range 4000 {
		var entries []byte
		key, at := "", int64(0)
		for range r.IntN(12) {
			d := replication.Delta{Key: strings.Repeat("k", 1+r.IntN(1<<r.IntN(10))), At: r.Int64N(1 << r.IntN(35)), N: r.Uint64() >> r.IntN(64)}
			if r.IntN(3) == 0 && key != "" {
				d.Key = key
			}
			entries = appendEntry(entries, d, key, at)
			if key = d.Key; d.N > 0 {
				at = d.At
			}
		}
		if round%2 == 1 && len(entries) > 0 {
			for range r.IntN(3) {
				entries[r.IntN(len(entries))] = byte(r.Uint32())
			}
			entries = entries[:len(entries)-min(len(entries), r.IntN(4))]
			if r.IntN(8) == 0 {
				entries = binary.AppendUvarint(entries, r.Uint64()>>r.IntN(64))
			}
		}
		want, ok := readPlainly(entries)
		b := Batch{Kind: KindHits, Entries: entries}
		if got := b.check(); got != ok {
			t.Fatalf("%x: sound %v, want %v", entries, got, ok)
		}
		if !ok {
			continue
		}
		sound++
		if got := b.Deltas(); !slices.Equal(got, want) {
			t.Fatalf("%x:\n%s, want\n%s", entries, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
	if sound < 1000 || sound == 4000 {
		t.Errorf("%d of 4000 are sound", sound)
	}
}
