package keyspace

import "github.com/weir-counter/weir/internal/replication"

// compactFirst is how many deltas are not worth adding up.
const compactFirst = 2048

// compact adds up the deltas of equal key and second: late hits settle one by
// one, but a batch grows with keys and seconds, not with hits. None is moved
// across a removal.
func compact(deltas []replication.Delta) []replication.Delta {
	type place struct {
		key string
		at  int64
	}
	places := make(map[place]int, len(deltas))
	kept := deltas[:0]
	for _, d := range deltas {
		if d.N == 0 {
			clear(places)
		} else if i, ok := places[place{d.Key, d.At}]; ok && kept[i].N+d.N > d.N {
			kept[i].N += d.N
			continue
		} else {
			places[place{d.Key, d.At}] = len(kept)
		}
		kept = append(kept, d)
	}
	clear(deltas[len(kept):])
	return kept
}

// EachSecond calls f with the hits for allKeys of each run of deltas in one second:
// most batches have one or two. Removals, and keys that are counted apart, are
// passed over.
func EachSecond(deltas []replication.Delta, f func(second int64, n uint64)) {
	for len(deltas) > 0 {
		at, n, same := deltas[0].At, forAll(&deltas[0]), 1
		for same < len(deltas) && deltas[same].At == at && n+deltas[same].N >= n {
			n += forAll(&deltas[same])
			same++
		}
		if n > 0 {
			f(at, n)
		}
		deltas = deltas[same:]
	}
}

// forAll is what a delta adds to allKeys.
func forAll(d *replication.Delta) uint64 {
	if Separate(d.Key) {
		return 0
	}
	return d.N
}
