package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// A Writer follows the journal in order, adds up hits by key and slot, and writes them in batches with the position that they reach.
//
// Invariants:
//   - Every hit of the journal is in the rows once: a Writer that begins again goes on at the position that is stored with them.
//   - It never slows hits. It reads what is on disk, on one goroutine. While the database is away it waits, and the journal keeps
//     what was not read, within a bound (History.Needed).
//   - One writer of a journal writes at a time (store.Lease).
//   - Its memory is bounded, whatever the journal has: it commits when it has maxRows, or maxText bytes of their keys.
//
// What was trimmed before it was read is filled in from snapshots (fill.go), and answers say what is in doubt.

// WriterJournal is what a writer reads.
type WriterJournal interface {
	replica.TailSource
	// ID is the journal's identity, the same for all its nodes.
	ID() string
	// Partitions is how many partitions its flushes have.
	Partitions() int
	// Written reports that all hits that were taken until asOf are in the journal up to a message.
	Written() (message uint64, asOf time.Time)
	// Grown reports whether the journal is of a cluster that has grown from a node alone, whose history that node has.
	Grown(ctx context.Context) (bool, error)
	// NewestSnapshots calls f with the newest snapshot of each partition, in order; nil: there is none.
	NewestSnapshots(ctx context.Context, f func(partition int, snap *record.Snapshot) error) error
}

// WriterConfig sets up a Writer. Every, Slot and Keep are as in Config; Store, Journal, Holder and Retention must be given.
type WriterConfig struct {
	Store     *store.Store
	Journal   WriterJournal
	Holder    string // names the node among the writers of a journal
	Every     time.Duration
	Slot      time.Duration
	Retention time.Duration // of the engine: how far back snapshots and late hits reach
	Keep      []store.Keep  // nil: rows are kept for ever
	Hurry     func()        // asks the other writers of the journal's history to write what it has by now (Kick); nil: there are no others
	Logger    *slog.Logger  // nil: none
}

// Writer writes one history. Create it with NewWriter.
type Writer struct {
	cfg     WriterConfig
	kick    concurrency.Signal
	adopted chan adoption
	copied  chan copying

	mu     sync.Mutex
	status WriterStatus
	moved  chan struct{} // closed, and replaced, when status changes

	// Of the goroutine of Run.
	migrated bool
	lease    *store.Lease
	claimed  time.Time
	tail     *replica.Tail
	before   *replica.Tail // the last tail, for the requests that it has seen
	marks    marks
	expired  int64 // the day on which old rows were last looked for
}

// WriterStatus is how far a history is. Rows and Failures count from the start of the process.
type WriterStatus struct {
	Writes   bool      // this is the one that writes
	Known    bool      // Message and AsOf are known
	Message  uint64    // of the journal, up to which it has all
	Settled  uint64    // Message of settleTime ago at least
	AsOf     time.Time // all hits that were taken until then are in
	Err      error     // why it does not go on; nil: it does
	Since    time.Time // of Err
	Full     bool      // the file has its size: old days are deleted early
	Gaps     int       // times, noted in the database, of which hits may be missing
	Rows     uint64    // of hours that were inserted or added to, and of days that were filled in
	Failures uint64    // attempts to go on that failed
}

// leaseTTL is for how long nobody writes after a writer has died.
const leaseTTL = 30 * time.Second

// NewWriter returns a writer, which Run runs.
func NewWriter(cfg WriterConfig) *Writer {
	cfg.Every = cmp.Or(cfg.Every, 5*time.Second)
	cfg.Slot = cmp.Or(cfg.Slot, time.Hour)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Writer{cfg: cfg, kick: concurrency.NewSignal(), adopted: make(chan adoption), copied: make(chan copying), moved: make(chan struct{})}
}

// Retries after an error.
const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Run writes until ctx ends, and then once more, for at most closing.
func (w *Writer) Run(ctx context.Context, closing time.Duration) {
	wait := time.Duration(0)
	for ctx.Err() == nil {
		err := w.step(ctx)
		switch {
		case ctx.Err() != nil:
			if err != nil { // it may have read what was not written
				w.tail = nil
			}
		case err == nil || errors.Is(err, store.ErrHeld):
			wait = 0
			w.pause(ctx, w.cfg.Every)
		default:
			if err = w.dropOldest(ctx, err); err == nil {
				w.tail = nil // it has read what was not written
				continue
			}
			w.failed(err)
			wait = min(max(2*wait, retryFirst), retryMost)
			w.pause(ctx, wait)
		}
	}
	if w.lease == nil {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if err := w.step(last); err != nil && !errors.Is(err, store.ErrHeld) {
		w.cfg.Logger.Warn("history: stopped before the newest hits were written; the next start writes them", "error", err)
	}
	if w.lease != nil {
		if err := w.cfg.Store.Release(last, w.lease); err != nil {
			w.cfg.Logger.Warn("history: could not give back the lease; it expires", "error", err)
		}
	}
}

func (w *Writer) pause(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.kick:
	case <-timer.C:
	}
}

// failed begins anew with what the database has: what became of the last transaction is not known.
func (w *Writer) failed(err error) {
	w.tail, w.lease = nil, nil
	w.set(func(is *WriterStatus) {
		if !errors.Is(err, store.ErrFenced) {
			if is.Failures++; is.Err == nil {
				is.Since = time.Now()
				w.cfg.Logger.Error("history: could not continue; will retry. Hits are counted meanwhile, and history is late", "error", err)
			}
		}
		is.Err, is.Writes = err, false
	})
}

func (w *Writer) step(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	select {
	case a := <-w.adopted:
		a.done <- w.replace(ctx, a.path)
		return w.step(ctx)
	case c := <-w.copied:
		c.done <- w.copyTo(ctx, c)
		return w.step(ctx)
	default:
	}
	message, asOf := w.cfg.Journal.Written()
	g := newGather(w.lease.Slot)
	for w.tail.Next() <= message {
		g.again()
		if err := w.advance(ctx, g, message, asOf); err != nil {
			return err
		}
	}
	if asOf.After(w.lease.AsOf) {
		w.lease.AsOf = asOf // in memory: the next batch writes it
	}
	w.report(w.lease, 0, nil)
	return w.lookAfter(ctx)
}

// open makes sure that there are a lease and a tail.
func (w *Writer) open(ctx context.Context) error {
	if gone := w.cfg.Store.CheckFile(); gone != nil {
		w.cfg.Logger.Error("history: starts over from the journal and its snapshots. To get older hits back, stop this process and restore the file",
			"database", w.cfg.Store.String(), "error", gone)
		w.migrated, w.tail, w.lease = false, nil, nil
		if err := w.cfg.Store.Reopen(); err != nil {
			return err
		}
	}
	if !w.migrated {
		if err := w.cfg.Store.Migrate(ctx); err != nil {
			return err
		}
		w.migrated = true
	}
	if w.lease == nil || time.Since(w.claimed) > leaseTTL/3 {
		if err := w.claim(ctx); err != nil {
			return err
		}
	}
	if w.tail != nil {
		return nil
	}
	if w.lease.Position == nil {
		return w.begin(ctx)
	}
	t, err := replica.ResumeTail(w.cfg.Journal, w.cfg.Journal.Partitions(), w.lease.Position, w.before)
	if err != nil {
		return err
	}
	w.tail, w.before = t, t
	return nil
}

// adoption is a copy of another node's database, which replaces this one.
type adoption struct {
	path string
	done chan error // holds one
}

// adopt has the writer replace its database with a copy of another node's, and go on from there.
func (w *Writer) adopt(ctx context.Context, path string) error {
	a := adoption{path, make(chan error, 1)}
	for {
		w.Kick()
		select {
		case w.adopted <- a:
			return <-a.done // else the copy would be removed while it is read
		case <-time.After(awaitPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Writer) replace(ctx context.Context, path string) error {
	message, err := w.cfg.Store.Adopt(ctx, w.lease, path)
	w.tail, w.lease = nil, nil // where this one goes on is to be read again
	if err != nil {
		return err
	}
	w.set(func(is *WriterStatus) { is.Known, is.Message, is.AsOf = false, message, time.Time{} })
	return nil
}

func (w *Writer) claim(ctx context.Context) error {
	token := int64(0)
	if w.lease != nil {
		token = w.lease.Token
	}
	l, err := w.cfg.Store.Claim(ctx, w.cfg.Journal.ID(), w.cfg.Holder, token, leaseTTL, w.cfg.Slot)
	if err != nil {
		w.tail, w.lease = nil, nil
		if errors.Is(err, store.ErrHeld) {
			w.report(&l, 0, err)
		}
		return err
	}
	if w.lease == nil || w.lease.Token != l.Token {
		w.tail = nil
	} else if l.AsOf.Before(w.lease.AsOf) {
		l.AsOf = w.lease.AsOf
	}
	w.lease, w.claimed = &l, time.Now()
	return nil
}

// readAtOnce is how many messages are read before it is looked whether the journal was trimmed.
const readAtOnce = 64

// advance reads on until there are enough rows in an empty gather, or up to a message, and writes them.
func (w *Writer) advance(ctx context.Context, g *gather, message uint64, asOf time.Time) error {
	from := w.tail.Next()
	for w.tail.Next() <= message && !g.full() {
		next := w.tail.Next()
		err := w.tail.Read(ctx, min(message, next+readAtOnce-1), func(b record.Batch) error {
			g.add(b, w.cfg.Retention)
			return nil
		}, g.full)
		if trimmed := (*replica.TrimmedError)(nil); errors.As(err, &trimmed) {
			if next > from { // what was read before is whole
				break
			}
			return w.fill(ctx, trimmed.Error())
		}
		if err != nil {
			return err
		}
		if w.tail.Next() == next { // messages that nobody can read end the journal for now
			break
		}
	}
	if len(g.gaps) > 0 {
		lacks, err := w.lacksFormer(ctx)
		if err != nil {
			return err
		}
		for i := range g.gaps {
			if lacks {
				g.gaps[i].First, g.gaps[i].Why = time.Unix(0, 0), "the cluster has grown from one node, and this one has not the history from before"
			}
		}
	}
	if lost := w.tail.Lost(); len(lost) > 0 {
		g.gaps = append(g.gaps, w.gapOfAll("hits were lost: "+lost[0].String()))
	}
	b := g.batch()
	b.Position = w.tail.Position()
	var err error
	if b.Message, b.AsOf, err = replica.Reached(b.Position); err != nil {
		return err
	}
	if b.Message >= message || w.tail.Next() > message {
		b.AsOf = asOf
	}
	b.UpTo = w.tail.Next() - 1
	if err := w.cfg.Store.Commit(ctx, w.lease, b); err != nil {
		return err
	}
	w.claimed = time.Now()
	w.report(w.lease, len(b.Rows), nil)
	if w.tail.Next() == from {
		return errors.New("history: messages of the journal can't be read, and nothing comes after them")
	}
	return nil
}

// lacksFormer reports whether the journal continues a former one of which this database has nothing.
func (w *Writer) lacksFormer(ctx context.Context) (lacks bool, err error) {
	if grown, err := w.cfg.Journal.Grown(ctx); err != nil || !grown {
		return false, err
	}
	err = w.cfg.Store.View(ctx, func(v *store.View) error {
		lacks = len(v.Journals) < 2
		return nil
	})
	return lacks, err
}

// gap is all time of which hits may be missing that were taken since the last batch: they may have been late.
func (w *Writer) gap(why string) store.Gap {
	return store.Gap{First: w.lease.AsOf.Add(-w.cfg.Retention), Last: time.Now(), Why: why}
}

// gapOfAll is all time until now, for hits that may have been older than the retention.
func (w *Writer) gapOfAll(why string) store.Gap {
	return store.Gap{First: time.Unix(0, 0), Last: time.Now(), Why: why}
}

// report notes how far history is, and how many rows were written.
func (w *Writer) report(l *store.Lease, rows int, held error) {
	w.set(func(is *WriterStatus) {
		if is.Err != nil {
			w.cfg.Logger.Info("history continues", "late", time.Since(is.Since).Round(time.Second))
		}
		is.Err, is.Since = nil, time.Time{}
		is.Writes, is.Known, is.Message, is.AsOf, is.Gaps = held == nil, true, l.Message, l.AsOf, l.Gaps
		is.Settled = w.marks.settled(l.Message, time.Now())
		is.Rows += uint64(rows)
	})
}

// settleTime is for how long the journal keeps what history has: a request that two nodes counted is in flushes that are less far
// apart. A writer that begins again between the two finds the first one there, also once snapshots list it no longer.
const settleTime = time.Minute

// marks are two messages up to which history had all at some time, settleTime apart at least.
type marks struct {
	newer, older uint64
	at           time.Time // of newer
}

// settled notes how far history is now, and returns how far it was settleTime ago at least; 0: that is not known.
func (m *marks) settled(message uint64, now time.Time) uint64 {
	if message < m.newer { // another node's file was adopted
		*m = marks{}
	}
	if now.Sub(m.at) >= settleTime {
		m.older, m.newer, m.at = m.newer, message, now
	}
	return m.older
}

// set changes the status, and wakes the goroutines that wait for it.
func (w *Writer) set(change func(is *WriterStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
	close(w.moved)
	w.moved = make(chan struct{})
}

// Status returns how far history is, as of a moment ago.
func (w *Writer) Status() WriterStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Await returns once history has the journal up to a message, or ctx has ended.
func (w *Writer) Await(ctx context.Context, message uint64) error {
	is := w.until(ctx, func(is WriterStatus) bool {
		if is.Known && is.Message >= message {
			return true
		}
		if !is.Writes && w.cfg.Hurry != nil {
			w.cfg.Hurry()
		}
		w.Kick()
		return false
	})
	if is.Known && is.Message >= message {
		return nil
	}
	return errors.Join(context.Cause(ctx), is.Err)
}

// AwaitOpen returns once it is known how far history is, or why that can't be known, or ctx has ended.
func (w *Writer) AwaitOpen(ctx context.Context) {
	w.until(ctx, func(is WriterStatus) bool { return is.Known || is.Err != nil })
}

// until returns the status once it is as f wants it, or ctx has ended. It asks f after each change, and every awaitPoll.
func (w *Writer) until(ctx context.Context, f func(is WriterStatus) bool) WriterStatus {
	for {
		w.mu.Lock()
		is, moved := w.status, w.moved
		w.mu.Unlock()
		if f(is) {
			return is
		}
		select {
		case <-moved:
		case <-time.After(awaitPoll):
		case <-ctx.Done():
			return is
		}
	}
}

// awaitPoll is how often Await wakes a writer that does not write.
const awaitPoll = 100 * time.Millisecond

// Kick makes the writer write what the journal has by now.
func (w *Writer) Kick() {
	w.kick.Raise()
}
