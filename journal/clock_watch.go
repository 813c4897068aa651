package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
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
	// clocksAgree is how far clocks may differ, beside what the exchange leaves open.
	clocksAgree = 500 * time.Millisecond

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
	is     clockVerdict
	warned bool
}

// clockVerdict is what a node knows of its clock.
type clockVerdict struct {
	correction time.Duration // by which it is behind the majority, if that is more than they may differ
	apart      time.Duration // the largest difference between clocks where no majority agrees; 0: one does
	compared   int           // clocks of others
}

// judgeClocks decides by the clocks of others.
func judgeClocks(others []Clock) clockVerdict {
	v := clockVerdict{compared: len(others)}
	skews, doubt := []time.Duration{0}, time.Duration(0)
	for _, c := range others {
		skews = append(skews, c.Skew)
		doubt = max(doubt, c.RTT/2)
	}
	slices.Sort(skews)
	agree := clocksAgree + min(doubt, clocksAgree)
	best := skews[:0]
	for first := range skews {
		last := first
		for last+1 < len(skews) && skews[last+1]-skews[first] <= agree {
			last++
		}
		if last+1-first > len(best) {
			best = skews[first : last+1]
		}
	}
	switch {
	case 2*len(best) <= len(skews):
		v.apart = skews[len(skews)-1] - skews[0]
	case best[0] > 0 || best[len(best)-1] < 0: // and so this node's is not among them
		v.correction = best[len(best)/2]
	}
	return v
}

// compareClocks asks the other nodes and corrects the engine's clock.
func (j *Journal) compareClocks(ctx context.Context, wanted int) {
	clocks, err := j.askClocks(ctx, wanted)
	if err != nil || len(clocks) == 0 {
		return // what was known last still holds
	}
	v := judgeClocks(clocks)
	w := &j.clocks
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.is
	w.is = v
	if v.apart > 0 {
		w.is.correction = was.correction // nobody knows better
	} else if was := j.engine.Replication().ClockCorrection(); v.correction != 0 || was != 0 {
		if change := v.correction - was; v.correction == 0 || change.Abs() > clocksAgree/10 {
			j.engine.Replication().CorrectClock(v.correction)
		}
	}
	wrong := v.apart > 0 || v.correction != 0
	if wrong != w.warned {
		if w.warned = wrong; wrong {
			j.log.Warn("journal: the clocks of the nodes differ: set them right (NTP)", "behind_the_others_by", v.correction, "no_majority_apart_by", v.apart)
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
		if off = j.clockOff(now); (off-was).Abs() < clocksAgree && now.Sub(compared) < every {
			continue
		}
		j.compareClocks(ctx, wanted)
		compared = now
	}
}

// clockOff is how far the clock is from one that is not set.
func (j *Journal) clockOff(now time.Time) time.Duration {
	return j.engine.Replication().UncorrectedWall().Round(0).Sub(clockBase.Round(0)) - now.Sub(clockBase)
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
	return ClockStatus{Correction: j.engine.Replication().ClockCorrection(), Apart: v.apart, LimitBehind: j.engine.Replication().LimitClockBehind(), Compared: v.compared}
}

// ClockSound tells whether strict limits may be decided here: the time of day of this node
// is known to a second.
func (j *Journal) ClockSound() bool {
	j.clocks.mu.Lock()
	defer j.clocks.mu.Unlock()
	return j.clocks.is.apart <= clocksSound
}

// clockAlarms tell that clocks must be set.
func (j *Journal) clockAlarms() (alarms []Alarm) {
	s := j.ClockStatus()
	by := func(d time.Duration) time.Duration { return d.Abs().Round(time.Millisecond) }
	switch {
	case s.Apart > 0:
		alarms = append(alarms, Alarm{Code: "clocks_differ", Message: fmt.Sprintf(
			"the clocks of the nodes differ by up to %v, and no majority of them agrees, so strict limits are not decided here: set the clocks right (NTP)", by(s.Apart))})
	case s.Correction < 0:
		alarms = append(alarms, Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v ahead of those of most other nodes: it counts by theirs: set it right (NTP)", by(s.Correction))})
	case s.Correction > 0:
		alarms = append(alarms, Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v behind those of most other nodes: it counts by theirs: set it right (NTP)", by(s.Correction))})
	}
	return alarms
}
