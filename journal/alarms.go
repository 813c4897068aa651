package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/journal/datadir"
	"github.com/weir-counter/weir/journal/replica"
)

// Alarms are all that is wrong with this node now, nil if nothing is. One code may be
// there more than once, for several nodes. It is cheap, waits for nobody, and is safe
// for concurrent use.
//
// Each source is a method of its own, in the file of what it watches.
func (j *Journal) Alarms() (alarms []replica.Alarm) {
	for _, source := range []func() []replica.Alarm{
		j.flushAlarms,
		j.quarantineAlarms,
		j.clocks.Alarms,
		j.storeAlarms,
		j.lagAlarms,
		j.fullAlarms,
	} {
		alarms = append(alarms, source()...)
	}
	return alarms
}

// flushAlarms tells that the last attempt to write a flush failed. A clustered node
// goes on to count, and does not refuse before its buffer is full: who is taken out
// of service for a lost quorum would take all nodes of a minority out.
func (j *Journal) flushAlarms() []replica.Alarm {
	if j.isGone() {
		return []replica.Alarm{{Code: "journal_failing", Message: j.Err().Error(), Refusing: true}}
	}
	wrong := j.stats.wrong.Load()
	if wrong == nil {
		return nil
	}
	if !j.cfg.clustered() {
		return []replica.Alarm{{Code: "journal_failing", Refusing: true, Message: "hits do not reach the disk, and are refused until they do: " + whyDisk(*wrong)}}
	}
	why := "this server's log says why"
	if own, sure := j.others.stores.OwnWrong(time.Now()); sure {
		why = "here " + own
	}
	waiting, most := j.engine.Stats().Waiting, j.engine.Config().MaxWaiting
	if waiting > most {
		return []replica.Alarm{{Code: "journal_failing", Refusing: true, Message: "hits do not become durable, the buffer is full, and hits are refused: " + why}}
	}
	return []replica.Alarm{{Code: "journal_failing", Message: fmt.Sprintf(
		"hits do not become durable: too few nodes reach each other, or too few of them store. This node counts, and %d of at most %d entries wait in memory: %s", waiting, most, why)}}
}

// whyDisk is what the disk of the data directory says, where it is why a flush failed.
func whyDisk(err error) string {
	if disk := (*datadir.DiskError)(nil); errors.As(err, &disk) {
		return disk.Error()
	}
	return "this server's log says why"
}

// storeAlarms tell whose replicas do not store: what is durable is then on fewer nodes
// than it should be.
func (j *Journal) storeAlarms() (alarms []replica.Alarm) {
	if !j.cfg.clustered() {
		return nil
	}
	return j.others.stores.Alarms(time.Now(), j.cfg.Join.Node)
}
