package durable

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Stats are the journal's figures since Open.
type Stats struct {
	Flushes    uint64           `metric:"weir_journal_flushes_total" doc:"Flushes that are on disk."`
	Bytes      uint64           `metric:"weir_journal_bytes_total" doc:"Bytes of flushes that are on disk."`
	Retained   int64            `metric:"weir_journal_kept_bytes" doc:"Bytes of journal that are kept, of all nodes."`
	LastFlush  time.Duration    `metric:"weir_journal_flush_seconds" doc:"Time that the last flush took, from the engine to the disk."`
	Failures   uint64           `metric:"weir_journal_failures_total" doc:"Attempts to write a flush that failed; each is retried."`
	Failing    bool             `metric:"weir_journal_failing" doc:"1 while the last attempt to write a flush failed: hits wait, and are refused in the end."`
	Revivals   uint64           `metric:"weir_journal_revivals_total" doc:"Times that the embedded server was restarted, after a full disk."`
	Rounds     uint64           `metric:"weir_journal_snapshot_rounds_total" doc:"Rounds in which every partition was snapshotted."`
	Fresh      uint64           `metric:"weir_fresh_rounds_total" doc:"Rounds in which all nodes were asked for their newest hits, for questions with fresh=, which share rounds."`
	NotFresh   uint64           `metric:"weir_fresh_failures_total" doc:"Rounds of these that ended without a fresh answer: some node did not say in time that all it took is in the journal."`
	Consumers  int              `metric:"weir_journal_consumers" doc:"JetStream consumers of the journal's stream: Weir makes none, other programs may."`
	Holes      uint64           `metric:"weir_journal_holes_total" doc:"Messages of the journal that no replica had."`
	Repaired   uint64           `metric:"weir_journal_repaired_total" doc:"Flushes of other nodes that the journal lost and that they sent again."`
	Divergence uint64           `metric:"weir_journal_divergence_total" doc:"Findings of other nodes' hits that are missing here: any is an alarm."`
	LongestCut time.Duration    `metric:"weir_journal_longest_cut_seconds" doc:"Longest time that a partition was locked to take its state."`
	Replayed   uint64           `metric:"weir_journal_replayed_flushes" doc:"Flushes that were read back at the start."`
	Repeats    uint64           `metric:"weir_journal_findings,kind=repeat" doc:"What the audit at the start found: lossy or harmless damage, messages that came twice (repeat), flushes that a crash cut off (unfinished)."`
	Unfinished uint64           `metric:"weir_journal_findings,kind=unfinished"`
	Findings   []record.Finding // at Open
	Lossy      int              `metric:"weir_journal_findings,kind=lossy"`
	Harmless   int              `metric:"weir_journal_findings,kind=harmless"`
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

// clusterJournal is what an answer says of the journal, but for its messages.
func (j *Journal) clusterJournal() *api.ClusterJournal {
	st := j.Stats()
	return &api.ClusterJournal{Bytes: st.Retained, Divergence: st.Divergence, Holes: st.Holes, Repaired: st.Repaired, LossyFindings: st.Lossy}
}

// AddStats adds to an answer what it says of the journal.
func (j *Journal) AddStats(a *api.StatsAnswer) {
	st := j.Stats()
	a.Durable = true
	a.Journal = &api.JournalStats{
		Epoch: st.Epoch, Flushes: st.Flushes, Bytes: st.Bytes, FlushSeconds: st.LastFlush.Seconds(), Failures: st.Failures, Failing: st.Failing,
		SnapshotRounds: st.Rounds, ReplayedFlushes: st.Replayed, LossyFindings: st.Lossy, HarmlessFindings: st.Harmless,
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
	for _, f := range j.found {
		if f.Harmless {
			s.Harmless++
		} else {
			s.Lossy++
		}
	}
	if j.others != nil {
		s.Fresh, s.NotFresh = j.others.fresh.Rounds()
	}
	return s
}
