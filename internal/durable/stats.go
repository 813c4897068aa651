package durable

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// Stats are the journal's figures since Open.
type Stats struct {
	Flushes    uint64           // acknowledged
	Bytes      uint64           // of their messages
	Retained   int64            // bytes of journal on disk, of all origins
	LastFlush  time.Duration    // from the first cut to the acknowledgement
	Failures   uint64           // of attempts to write a flush
	Failing    bool             // the last attempt failed
	Revivals   uint64           // of the embedded server, after a full disk
	Rounds     uint64           // of snapshots
	Fresh      uint64           // rounds for fresh answers
	NotFresh   uint64           // of these, those that ended without one
	Consumers  int              // of the journal's stream; Weir makes none
	Holes      uint64           // messages of the journal that no replica had
	Repaired   uint64           // flushes of other nodes that the journal lost, and that they sent again
	Divergence uint64           // findings while following other nodes: hits of theirs that are missing here
	LongestCut time.Duration    // that a partition was locked to take its state
	Replayed   uint64           // flushes, at Open
	Repeats    uint64           // messages and batches seen twice at Open, and dropped
	Unfinished uint64           // flushes without all parts at Open: never acknowledged, left out
	Findings   []record.Finding // at Open
	Epoch      uint64
}

type stats struct {
	flushes, bytes, failures, revivals, divergences atomic.Uint64
	lastFlush, longestCut                           atomic.Int64
	wrong                                           atomic.Pointer[error] // of the last attempt to write a flush; nil: it was written
	replays, repeats, unfinished                    uint64                // written by Open alone
}

func (s *stats) flushed(took time.Duration) {
	s.flushes.Add(1)
	s.lastFlush.Store(int64(took))
}

func (s *stats) wrote(bytes int)  { s.bytes.Add(uint64(bytes)) }
func (s *stats) failed(err error) { s.failures.Add(1); s.wrong.Store(&err) }
func (s *stats) recovered()       { s.wrong.Store(nil) }
func (s *stats) failing() bool    { return s.wrong.Load() != nil }

// timed measures how long a partition is locked.
func (s *stats) timed(takeState func()) {
	began := time.Now()
	takeState()
	took := time.Since(began)
	for was := s.longestCut.Load(); int64(took) > was && !s.longestCut.CompareAndSwap(was, int64(took)); {
		was = s.longestCut.Load()
	}
}

// Stats returns the figures.
func (j *Journal) Stats() Stats {
	holes, repaired := j.replica.Repairs()
	s := Stats{
		Flushes:    j.stats.flushes.Load(),
		Bytes:      j.stats.bytes.Load(),
		Retained:   j.space.Retained(),
		LastFlush:  time.Duration(j.stats.lastFlush.Load()),
		Failures:   j.stats.failures.Load(),
		Failing:    j.stats.failing(),
		Revivals:   j.stats.revivals.Load(),
		Rounds:     j.checkpoints.Rounds(),
		Consumers:  j.store.Consumers(),
		Holes:      holes,
		Repaired:   repaired,
		Divergence: j.stats.divergences.Load(),
		LongestCut: time.Duration(j.stats.longestCut.Load()),
		Replayed:   j.stats.replays,
		Repeats:    j.stats.repeats,
		Unfinished: j.stats.unfinished,
		Findings:   j.found,
		Epoch:      j.own.Epoch,
	}
	if j.others != nil {
		s.Fresh, s.NotFresh = j.others.fresh.Rounds()
	}
	return s
}
