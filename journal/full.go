package journal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errFull is why the journal takes no more.
var errFull = errors.New("the data directory is at its size bound: raise --max-disk (MaxBytes)")

// fullMessage is what whoever hits is told.
const fullMessage = "the journal has taken its share of --max-disk (MaxBytes), and what is counted now could not be kept: retry in some seconds, when snapshots have been stored and it is trimmed; if it lasts, see /readyz, and raise --max-disk"

// burstMessage is what they are told where only the next flush is full.
const burstMessage = "more hits wait for the disk than --max-disk (MaxBytes) leaves room for: retry in a second, or raise --max-disk"

// noTakesMessage is what whoever asks for an admission is told.
const noTakesMessage = "the journal has taken all that --max-disk (MaxBytes) leaves for admissions, and a crash would give back what it does not have: retry in some seconds, when it is trimmed; if it lasts, see /readyz, and raise --max-disk"

// failingMessage is what they are told where a flush could not be written.
const failingMessage = "hits and admissions do not reach the disk: retry in a second; if it lasts, see /readyz and this server's log, and make room"

// space is what this node knows of the room in the data directory.
type space struct {
	full    atomic.Bool  // hits are refused for want of room
	writers atomic.Int64 // nodes that write the journal; 0: not known yet
	looked  time.Time    // when the flusher last asked how much there is
}

// room is how the data directory is shared out.
func (j *Journal) room() room {
	return room{max: j.cfg.MaxBytes, nodes: int(j.space.writers.Load()), clustered: j.cfg.clustered()}
}

// boundWaiting has the engine refuse what could not be kept, while so many bytes are on
// their way.
func (j *Journal) boundWaiting(underWay int64) {
	kept := j.snapshots.kept.Load()
	bytes, why := j.room().waiting(kept, underWay), burstMessage
	if bytes < 0 {
		why = fullMessage
	}
	j.space.full.Store(j.room().full(kept))
	j.engine.Replication().BoundWaiting(bytes, why)
	if j.room().admits(kept, underWay) {
		j.engine.Replication().RefuseTakes("")
	} else {
		j.engine.Replication().RefuseTakes(noTakesMessage)
	}
}

// refuseWaiting has the engine of a node alone refuse what a flush that failed could not
// take: a crash must not lose more than one flush interval. A clustered node goes on,
// for what fails there may be an election, and says who does not store.
func (j *Journal) refuseWaiting() {
	if !j.cfg.clustered() {
		j.engine.Replication().BoundWaiting(-1, failingMessage)
		j.engine.Replication().RefuseTakes(failingMessage)
	}
}

// lookAgain is how often a clustered node looks how much journal there is, where that
// is much; keptEvery, where not.
const lookAgain = 200 * time.Millisecond

// lookForRoom finds out before a flush how much journal others have written or trimmed.
func (j *Journal) lookForRoom(ctx context.Context) {
	if !j.cfg.clustered() {
		return
	}
	every := keptEvery
	if j.room().haste(j.snapshots.kept.Load()) {
		every = lookAgain
	}
	if time.Since(j.space.looked) < every {
		return
	}
	j.space.looked = time.Now()
	j.lookAtKept(ctx)
	j.space.writers.Store(int64(len(j.shares.registry.Entries())))
}

// FitsMemory returns a *weir.Error of CodeInvalidConfig if the snapshots of an engine with
// so much Memory and LimitMemory, in bytes, have no room in MaxBytes: see MinDisk. Open does
// the same.
func (cfg Config) FitsMemory(memory, limits int64) error {
	cfg = cfg.withDefaults()
	if cfg.MaxBytes < MinDisk(memory+limits) {
		return errTooLittleDisk(cfg.MaxBytes, memory, limits)
	}
	return nil
}

// fullAlarms tells that hits are refused for want of room, and why none comes free.
func (j *Journal) fullAlarms() (alarms []Alarm) {
	if j.space.full.Load() {
		alarms = append(alarms, Alarm{Code: "journal_full", Refusing: true, Message: fmt.Sprintf(
			"the journal has %d of at most %d bytes (--max-disk): hits are refused until snapshots are stored and it is trimmed", j.snapshots.kept.Load(), j.room().fullFrom())})
	}
	if err := j.snapshots.unstored.Load(); err != nil {
		alarms = append(alarms, Alarm{Code: "snapshots_failing", Message: fmt.Sprintf(
			"a snapshot could not be stored (%v): the journal is not trimmed meanwhile, and hits are refused once it is full", *err)})
	}
	return alarms
}
