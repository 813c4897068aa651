package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/files"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/units"
)

// Alarms are all that is wrong with this node now, nil if nothing is. One code may be
// there more than once, for several nodes. It is cheap, waits for nobody, and is safe
// for concurrent use.
//
// Each source is a method of its own, in the file of what it watches.
func (j *Journal) Alarms() (alarms []api.Alarm) {
	for _, source := range []func() []api.Alarm{
		j.flushAlarms,
		j.quarantineAlarms,
		j.clocks.Alarms,
		j.storeAlarms,
		j.lagAlarms,
		j.fullAlarms,
		j.consumerAlarms,
		j.replicasAlarms,
		j.nodesAlarms,
	} {
		alarms = append(alarms, source()...)
	}
	return alarms
}

// flushAlarms tells that the last attempt to write a flush failed. A clustered node
// goes on to count, and does not refuse before its buffer is full: who is taken out
// of service for a lost quorum would take all nodes of a minority out.
func (j *Journal) flushAlarms() []api.Alarm {
	if j.isGone() {
		return []api.Alarm{{Code: "journal_failing", Message: j.Err().Error(), Refusing: true}}
	}
	wrong := j.stats.wrong.Load()
	if wrong == nil {
		return nil
	}
	if offline := j.offline.Load(); offline != nil {
		return []api.Alarm{{Code: "journal_failing", Refusing: true, Message: whyOffline(*offline)}}
	}
	if !j.cfg.clustered() {
		return []api.Alarm{{Code: "journal_failing", Refusing: true, Message: "hits do not reach the disk, and are refused: " + whyDisk(*wrong)}}
	}
	why := "this server's log says why"
	if own, sure := j.others.stores.OwnWrong(time.Now()); sure {
		why = "here " + own
	}
	waiting, most := j.engine.Stats().Waiting, j.engine.Config().MaxWaiting
	if waiting > most {
		return []api.Alarm{{Code: "journal_failing", Refusing: true, Message: "hits do not become durable, the buffer is full, and hits are refused: " + why}}
	}
	return []api.Alarm{{Code: "journal_failing", Message: fmt.Sprintf(
		"hits do not become durable: too few nodes reach each other or can store. This node counts, and %d of at most %d entries wait in memory: %s", waiting, most, why)}}
}

// whyOffline is why a clustered node refuses hits: they would wait in memory, and end with the process (replica.GiveUpAfter), while the
// other nodes can take them.
func whyOffline(err error) string {
	return fmt.Sprintf("this node is cut off, because its embedded server could not be restarted (%v). It keeps trying; send hits and decisions to another node", err)
}

// whyDisk is what the disk of the data directory says, where it is why a flush failed.
func whyDisk(err error) string {
	if disk := (*checkpoint.DiskError)(nil); errors.As(err, &disk) {
		return disk.Error()
	}
	return "this server's log says why"
}

// storeAlarms tell whose replicas do not store: what is durable is then on fewer nodes
// than it should be.
func (j *Journal) storeAlarms() (alarms []api.Alarm) {
	if !j.cfg.clustered() {
		return nil
	}
	return j.others.stores.Alarms(time.Now(), j.cfg.Join.Node)
}

// quarantinedFor is for how long after the last hit of a second that is minutes ahead a node
// says so: the hits themselves stay ahead until their time comes.
const quarantinedFor = time.Minute

// quarantineAlarms tells that hits came whose seconds are minutes ahead of this node's clock:
// this clock is wrong, or the clock of the node that took them.
func (j *Journal) quarantineAlarms() []api.Alarm {
	stats := j.engine.Stats()
	if stats.Quarantined == 0 || j.now().Sub(stats.NewestQuarantined) > quarantinedFor {
		return nil
	}
	return []api.Alarm{{Code: "hits_quarantined", Message: fmt.Sprintf(
		"%d hits of other nodes or stored hits are minutes ahead of this node's clock, and count when their time comes: a clock is or was wrong; correct it (NTP)", stats.Quarantined)}}
}

// now is the time of day, as the engine has it.
func (j *Journal) now() time.Time { return j.engine.Wall().Time() }

// lagAlarms tell of each node whose hits may be missing here, and of this one where what
// it takes does not reach the journal. A node stays in service meanwhile: its answers say
// what they lack.
func (j *Journal) lagAlarms() (alarms []api.Alarm) {
	_, late := j.LateOrigins()
	spent := j.space.Spent()
	for _, o := range late {
		if o.Self && j.stats.failing() {
			continue // flushAlarms says so
		}
		alarms = append(alarms, replica.LateAlarm(o, spent))
	}
	return alarms
}

// The disk that snapshots take. A state takes at most four fifths of the memory of
// what it has. Measured: 0.05 for keys of a thousand hits and more, 0.3 for short keys
// of a few, 0.79 for keys of 512 bytes with one. There are two states of each partition, and some that are being written. They have half of
// MaxBytes.
const (
	diskOverMemory   = 7
	diskOverMemoryOf = 2
)

// MinDisk is the least Config.MaxBytes for an engine with so much memory, in bytes: its
// Config.Memory and LimitMemory together. Twice the memory's snapshots fit into half of it.
func MinDisk(memory int64) int64 { return max(memory/diskOverMemoryOf*diskOverMemory, minMaxBytes) }

// MaxMemory is the most memory, in bytes, that an engine may have with a Config.MaxBytes of
// maxBytes: Memory and LimitMemory together.
func MaxMemory(maxBytes int64) int64 { return maxBytes / diskOverMemory * diskOverMemoryOf }

// receiptsOfDisk is the part of Config.MaxBytes, as one of so many, that an engine's OnceMemory
// may be. Snapshots have two slots, each with the receipts of this node and twice as many of
// others and of earlier lives: six times OnceMemory, of the half of MaxBytes that is theirs. What
// MinDisk leaves free of that half, with states at their largest, is a tenth.
const receiptsOfDisk = 120

// MaxReceipts is the largest OnceMemory, in bytes, that an engine may have with a Config.MaxBytes of
// maxBytes. With more, snapshots could not be stored, and a full journal would never be trimmed.
func MaxReceipts(maxBytes int64) int64 { return maxBytes / receiptsOfDisk }

func errTooManyReceipts(maxBytes, receipts int64) error {
	return invalidConfig("MaxBytes", "MaxBytes (--max-disk) of %s is too little for an OnceMemory (--idempotency-memory) of %s: the snapshots have no space for so many receipts. Raise --max-disk to at least %s, or lower --idempotency-memory to at most %s",
		units.FormatSize(maxBytes), units.FormatSize(receipts), mib(receipts*receiptsOfDisk), kibDown(MaxReceipts(maxBytes)))
}

// leastEngine is the least Memory and LimitMemory, together, of an engine with 256 partitions.
const leastEngine = 256*64<<10 + 64<<10

func errTooLittleDisk(maxBytes, memory, limits int64) error {
	advice := fmt.Sprintf("Raise --max-disk to at least %s", mib(MinDisk(memory+limits)))
	if most := MaxMemory(maxBytes); most >= leastEngine {
		advice += fmt.Sprintf(", or lower the two to at most %s together", mibDown(most))
	} else {
		advice += fmt.Sprintf("; the least that any settings need is %s", mib(MinDisk(leastEngine)))
	}
	return invalidConfig("MaxBytes", "MaxBytes (--max-disk) of %s is too little for a Memory (--memory) of %s and a LimitMemory (--limit-memory) of %s: two snapshots of these must fit into half of it. %s",
		units.FormatSize(maxBytes), units.FormatSize(memory), units.FormatSize(limits), advice)
}

// mib, mibDown and kibDown write sizes in advice. A lower bound is rounded up, and an upper bound down, so that the advice works.
func mib(bytes int64) string     { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }
func mibDown(bytes int64) string { return fmt.Sprintf("%dMiB", bytes>>20) }
func kibDown(bytes int64) string { return fmt.Sprintf("%dKiB", bytes>>10) }

// lookForSpace finds out before a flush how much journal others have written or trimmed, and whether it still has what was applied.
func (j *Journal) lookForSpace(ctx context.Context) {
	if !j.space.LookDue(time.Now()) {
		return
	}
	applied := j.Followed()
	if last, known := j.checkpoints.LookAtSize(ctx); known {
		j.checkReach(time.Now(), applied, last)
	}
	j.space.SetWriters(len(j.others.holders.Entries()))
}

// shortMost is for how long the journal may end before what this node has applied: a new leader applies its log first.
const shortMost = 30 * time.Second

// checkReach fails the journal if it has begun anew on the other nodes: it ends before what was applied here. What is written since
// would have numbers that this node takes for applied. Only the flusher calls it.
func (j *Journal) checkReach(now time.Time, applied, last uint64) {
	switch {
	case last >= applied:
		j.short = time.Time{}
	case j.short.IsZero():
		j.short = now
	case now.Sub(j.short) > shortMost:
		if err := fmt.Errorf("the journal ends at message %d, and this node has applied message %d: most nodes have lost their files, and what was only there is gone. "+
			"This process must end. Copy the data directories before anything else, and read \"A damaged disk\" in docs/cluster-operations.md", last, applied); j.fail(err) {
			j.log.Error("journal: it started over without this node's data", "error", err)
		}
	}
}

// ProbeDisk returns the bytes that a data directory has, the bytes that are free on its disk, and how long the disk takes to store 2 MiB.
func ProbeDisk(dir string) (used, free int64, took time.Duration, err error) {
	if free, err = files.FreeBytes(dir); err != nil {
		return 0, 0, 0, err
	}
	began := time.Now()
	err = checkpoint.TrySpace(dir)
	took = time.Since(began)
	return checkpoint.DirectoryBytes(dir), free, took, err
}

// FitsMemory returns a *engine.Error of CodeInvalidConfig if the snapshots of an engine do not
// fit into MaxBytes, by its Memory, LimitMemory and OnceMemory, in bytes: see MinDisk and
// MaxReceipts. Open does the same.
func (cfg Config) FitsMemory(e engine.Config) error {
	most := cfg.WithDefaults().MaxBytes
	switch {
	case most < MinDisk(e.Memory+e.LimitMemory):
		return errTooLittleDisk(most, e.Memory, e.LimitMemory)
	case e.OnceMemory > MaxReceipts(most):
		return errTooManyReceipts(most, e.OnceMemory)
	}
	return nil
}

// mostConsumers is how many consumers of the journal's stream are no alarm. NATS refuses more than 1,000 of one stream
// in its default settings, and each takes memory of a server.
const mostConsumers = 100

// consumerAlarms tells that another program makes consumers of the journal's stream: Weir has none.
func (j *Journal) consumerAlarms() []api.Alarm {
	n := j.store.Consumers()
	if n <= mostConsumers {
		return nil
	}
	return []api.Alarm{{Code: "journal_consumers", Message: fmt.Sprintf(
		"the stream %s has %d JetStream consumers, and Weir creates none: another program reads it", stream.FlushStream, n)}}
}

// replicasAlarms says that partitions lack holders: if another node stops now, some may have none.
func (j *Journal) replicasAlarms() []api.Alarm {
	if j.others == nil {
		return nil
	}
	n := j.others.holders.UnderReplicated()
	if n == 0 {
		return nil
	}
	return []api.Alarm{{Code: "under_replicated", Message: fmt.Sprintf(
		"%d of %d partitions are held by fewer than %d running nodes: stop no other node until this alarm ends. Running nodes take them over once a node has been unreachable for %v (--move-after)",
		n, j.engine.Config().Partitions, j.cfg.Replicas, j.cfg.MoveAfter)}}
}

// nodesAlarms say which nodes have other settings than this one, or its name.
func (j *Journal) nodesAlarms() []api.Alarm {
	if j.others == nil {
		return nil
	}
	return append(j.others.beats.Alarms(), j.others.holders.SettingsAlarms(time.Now())...)
}

// fullAlarms tells that hits are refused for want of space, and why none becomes free.
func (j *Journal) fullAlarms() (alarms []api.Alarm) {
	if j.space.Full() {
		alarms = append(alarms, api.Alarm{Code: "journal_full", Refusing: true, Message: fmt.Sprintf(
			"the journal has %s of at most %s, its part of --max-disk: hits are refused until %s and it is trimmed",
			units.FormatSize(j.space.Retained()), units.FormatSize(j.space.FullFrom()), j.trimWaitsFor())})
	}
	if err := j.checkpoints.Unstored(); err != nil {
		alarms = append(alarms, api.Alarm{Code: "snapshots_failing", Message: fmt.Sprintf(
			"a snapshot could not be stored (%v): the journal is not trimmed, and hits are refused once it is full", err)})
	}
	return alarms
}

// trimWaitsFor says what the journal is not trimmed before.
func (j *Journal) trimWaitsFor() string {
	if j.cfg.Needed != nil && j.cfg.Needed(true) > 0 {
		return "history has written what only the journal has (hits older than the retention)"
	}
	return "snapshots are stored"
}
