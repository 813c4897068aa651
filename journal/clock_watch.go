package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/replica"
)

// A clustered node compares its clock with theirs, at its start before it reads the
// journal, and then again and again. Where most of those that answer, itself included,
// agree, and it does not, it counts by their time of day until its own is right again: a
// machine whose clock is wrong at boot neither stamps its hits so nor calls theirs ahead.
// All compare the clocks as they are, uncorrected, so that no two nodes follow each other.
//
// Where no majority agrees, nobody can know the time: nothing is corrected, the alarm
// says so, and strict limits are not decided here (package strict).

const (
	// clocksSound is how far strict limits let them differ: their slack.
	clocksSound = time.Second

	// clocksEvery is how often they are compared at most, and clockEach how much time there
	// is between two exchanges for each node that answers.
	clocksEvery = 2 * time.Second
	clockEach   = 100 * time.Millisecond

	// clockLook is how often a node looks whether its own clock was set, which is compared
	// at once.
	clockLook = 250 * time.Millisecond
)

// clockWatch is what the last exchange has shown.
type clockWatch struct {
	mu     sync.Mutex
	is     replica.ClockVerdict
	warned bool
}

// compareClocks asks the other nodes and corrects the engine's clock.
func (j *Journal) compareClocks(ctx context.Context, wanted int) {
	clocks, err := j.askClocks(ctx, wanted)
	if err != nil || len(clocks) == 0 {
		return // what was known last still holds
	}
	v := replica.JudgeClocks(clocks)
	w := &j.clocks
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.is
	w.is = v
	if v.Apart > 0 {
		w.is.Correction = was.Correction // nobody knows better
	} else if was := replication.Of(j.engine).ClockCorrection(); v.Correction != 0 || was != 0 {
		if change := v.Correction - was; v.Correction == 0 || change.Abs() > replica.ClocksAgree/10 {
			replication.Of(j.engine).CorrectClock(v.Correction)
		}
	}
	wrong := v.Apart > 0 || v.Correction != 0
	if wrong != w.warned {
		if w.warned = wrong; wrong {
			j.log.Warn("journal: the clocks of the nodes differ: set them right (NTP)", "behind_the_others_by", v.Correction, "no_majority_apart_by", v.Apart)
		} else {
			j.log.Info("journal: the clocks of the nodes agree again")
		}
	}
}

// runClocks compares clocks until ctx is done.
func (j *Journal) runClocks(ctx context.Context) {
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	compared := time.Now()
	off := j.clockOff(compared)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		wanted := j.answering()
		every := max(clocksEvery, time.Duration(wanted)*clockEach)
		was := off
		if off = j.clockOff(now); (off-was).Abs() < replica.ClocksAgree && now.Sub(compared) < every {
			continue
		}
		j.compareClocks(ctx, wanted)
		compared = now
	}
}

// clockOff is how far the clock is from one that is not set.
func (j *Journal) clockOff(now time.Time) time.Duration {
	return replication.Of(j.engine).UncorrectedWall().Round(0).Sub(clockBase.Round(0)) - now.Sub(clockBase)
}

// clockBase has a time of day and a monotonic time of one moment.
var clockBase = time.Now()

// answering is how many other nodes should answer.
func (j *Journal) answering() (wanted int) {
	for _, o := range j.Origins() {
		if !o.Self && !o.Left && !o.Late {
			wanted++
		}
	}
	return wanted
}

// ClockStatus is what a node knows of its own clock.
type ClockStatus struct {
	Correction  time.Duration // added to its time of day, which most other nodes say is wrong; 0: it is right, or nobody knows
	Apart       time.Duration // the largest difference between nodes' clocks where no majority agrees; 0: one does
	LimitBehind time.Duration // how far the time of day has run ahead of the clock that limits are kept by: it was set, corrected, or the machine was stopped
	Compared    int           // clocks of other nodes, last time
}

// ClockStatus tells what the last comparison has shown. It asks nobody.
func (j *Journal) ClockStatus() ClockStatus {
	j.clocks.mu.Lock()
	defer j.clocks.mu.Unlock()
	v := j.clocks.is
	return ClockStatus{Correction: replication.Of(j.engine).ClockCorrection(), Apart: v.Apart, LimitBehind: replication.Of(j.engine).LimitClockBehind(), Compared: v.Compared}
}

// ClockSound tells whether strict limits may be decided here: the time of day of this node
// is known to a second.
func (j *Journal) ClockSound() bool {
	j.clocks.mu.Lock()
	defer j.clocks.mu.Unlock()
	return j.clocks.is.Apart <= clocksSound
}

// clockAlarms tell that clocks must be set.
func (j *Journal) clockAlarms() (alarms []replica.Alarm) {
	s := j.ClockStatus()
	by := func(d time.Duration) time.Duration { return d.Abs().Round(time.Millisecond) }
	switch {
	case s.Apart > 0:
		alarms = append(alarms, replica.Alarm{Code: "clocks_differ", Message: fmt.Sprintf(
			"the clocks of the nodes differ by up to %v, and no majority of them agrees, so strict limits are not decided here: set the clocks right (NTP)", by(s.Apart))})
	case s.Correction < 0:
		alarms = append(alarms, replica.Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v ahead of those of most other nodes: it counts by theirs: set it right (NTP)", by(s.Correction))})
	case s.Correction > 0:
		alarms = append(alarms, replica.Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v behind those of most other nodes: it counts by theirs: set it right (NTP)", by(s.Correction))})
	}
	return alarms
}
