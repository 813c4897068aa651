package replay

import "github.com/weir-counter/weir/client"

// chunkBytes is the size of the pieces that a log is cut into: large enough
// that handing one over costs nothing beside parsing it, small enough to stay
// in a core's cache.
const chunkBytes = 1 << 20

// chunksPerWorker is the size of the pool: one chunk that is parsed, one that
// waits, and one that is read or collected.
const chunksPerWorker = 3

// sampleLines is how many malformed lines are shown, and sampleBytes how much
// of each.
const (
	sampleLines = 5
	sampleBytes = 160
)

// A chunk is whole lines of one file, and what a worker found in them. It goes
// round: reader, worker, collector, reader. When there is a server, the sender
// stands between worker and collector.
type chunk struct {
	buf    []byte // chunkBytes, for text
	text   []byte // whole lines; the last may lack its line end
	file   int    // index of the file that text is from
	plan   *plan
	newest int64 // the latest second that is not from the future

	done chan struct{} // gets one value when the worker is done
	found
}

// found is what a worker found in a chunk.
type found struct {
	lines     int          // all line ends: gives the line numbers
	runs      []run        // good lines, in order
	malformed int          // lines
	sample    []badLine    // the first malformed lines
	ahead     int          // lines whose time is in the future
	keyless   []uint64     // hits without a key, by template
	refused   uint64       // hits whose key cannot be one
	counted   []keyCount   // hits of the keys that are counted exactly
	hits      []client.Hit // that are sent to a server, sorted by time
	part      any          // that a LineWorker made
}

// A run is lines in a row that have the same second.
type run struct {
	at    int64 // Unix seconds
	lines int
	n     uint64 // hits
}

type keyCount struct {
	key int // index in Options.CountKeys
	at  int64
	n   uint64
}

type badLine struct {
	line   int // in the chunk, from 0
	text   string
	reason error
}

func newChunk() *chunk {
	return &chunk{buf: make([]byte, chunkBytes), done: make(chan struct{}, 1)}
}

// reset empties what was found, and keeps the memory.
func (f *found) reset(templates int) {
	*f = found{
		runs:    f.runs[:0],
		sample:  f.sample[:0],
		keyless: append(f.keyless[:0], make([]uint64, templates)...),
		counted: f.counted[:0],
		hits:    f.hits[:0],
	}
}

func (f *found) addRun(at int64, n uint64) {
	if last := len(f.runs) - 1; last >= 0 && f.runs[last].at == at {
		f.runs[last].lines++
		f.runs[last].n += n
		return
	}
	f.runs = append(f.runs, run{at: at, lines: 1, n: n})
}

func (f *found) addCount(key int, at int64, n uint64) {
	if last := len(f.counted) - 1; last >= 0 && f.counted[last].at == at && f.counted[last].key == key {
		f.counted[last].n += n
		return
	}
	f.counted = append(f.counted, keyCount{key: key, at: at, n: n})
}

func (f *found) addMalformed(text []byte, reason error) {
	f.malformed++
	if len(f.sample) < sampleLines {
		text = text[:min(len(text), sampleBytes)]
		f.sample = append(f.sample, badLine{line: f.lines, text: string(text), reason: reason})
	}
}
