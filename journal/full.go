package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal/replica"
)

// lookForRoom finds out before a flush how much journal others have written or trimmed.
func (j *Journal) lookForRoom(ctx context.Context) {
	if j.space.LookDue(time.Now()) {
		j.checkpoints.LookAtSize(ctx)
		j.space.SetWriters(j.others.holders.Registered())
	}
}

// FitsMemory returns a *weir.Error of CodeInvalidConfig if the snapshots of an engine have no
// room in MaxBytes, by its Memory, LimitMemory and OnceMemory, in bytes: see MinDisk and
// MaxReceipts. Open does the same.
func (cfg Config) FitsMemory(engine weir.Config) error {
	most := cfg.withDefaults().MaxBytes
	switch {
	case most < MinDisk(engine.Memory+engine.LimitMemory):
		return errTooLittleDisk(most, engine.Memory, engine.LimitMemory)
	case engine.OnceMemory > MaxReceipts(most):
		return errTooManyReceipts(most, engine.OnceMemory)
	}
	return nil
}

// fullAlarms tells that hits are refused for want of room, and why none comes free.
func (j *Journal) fullAlarms() (alarms []replica.Alarm) {
	if j.space.Full() {
		alarms = append(alarms, replica.Alarm{Code: "journal_full", Refusing: true, Message: fmt.Sprintf(
			"the journal has %s of at most %s, its part of --max-disk: hits are refused until snapshots are stored and it is trimmed",
			units.FormatSize(j.space.Retained()), units.FormatSize(j.space.Room().FullFrom()))})
	}
	if err := j.checkpoints.Unstored(); err != nil {
		alarms = append(alarms, replica.Alarm{Code: "snapshots_failing", Message: fmt.Sprintf(
			"a snapshot could not be stored (%v): the journal is not trimmed meanwhile, and hits are refused once it is full", err)})
	}
	return alarms
}
