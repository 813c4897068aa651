package peers

import (
	"context"
	"fmt"
	"time"

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

// Compare asks so many other nodes and corrects this one's clock.
func (c *Clocks) Compare(ctx context.Context, wanted int) {
	clocks, err := c.Ask(ctx, wanted)
	if err != nil || len(clocks) == 0 {
		return // what was known last still holds
	}
	v := replica.JudgeClocks(clocks)
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.is
	c.is = v
	if v.Apart > 0 {
		c.is.Correction = was.Correction // nobody knows better
	} else if was := c.Clock.ClockCorrection(); v.Correction != 0 || was != 0 {
		if change := v.Correction - was; v.Correction == 0 || change.Abs() > replica.ClocksAgree/10 {
			c.Clock.CorrectClock(v.Correction)
		}
	}
	wrong := v.Apart > 0 || v.Correction != 0
	if wrong != c.warned {
		if c.warned = wrong; wrong {
			c.Log.Warn("journal: the clocks of the nodes differ: set them right (NTP)", "behind_the_others_by", v.Correction, "no_majority_apart_by", v.Apart)
		} else {
			c.Log.Info("journal: the clocks of the nodes agree again")
		}
	}
}

// Run compares clocks until ctx is done.
func (c *Clocks) Run(ctx context.Context) {
	c.runs.Store(true)
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	compared := time.Now()
	off := c.off(compared)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		wanted := c.answering()
		every := max(clocksEvery, time.Duration(wanted)*clockEach)
		was := off
		if off = c.off(now); (off-was).Abs() < replica.ClocksAgree && now.Sub(compared) < every {
			continue
		}
		c.Compare(ctx, wanted)
		compared = now
	}
}

// off is how far the clock is from one that is not set.
func (c *Clocks) off(now time.Time) time.Duration {
	return c.Clock.UncorrectedWall().Round(0).Sub(clockBase.Round(0)) - now.Sub(clockBase)
}

// clockBase has a time of day and a monotonic time of one moment.
var clockBase = time.Now()

// Sound tells whether strict limits may be decided here: the time of day of this node
// is known to a second.
func (c *Clocks) Sound() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is.Apart <= clocksSound
}

// Alarms tell that clocks must be set, or that another node has this one's name.
func (c *Clocks) Alarms() (alarms []replica.Alarm) {
	c.mu.Lock()
	apart := c.is.Apart
	c.mu.Unlock()
	correction := c.Clock.ClockCorrection()
	by := func(d time.Duration) time.Duration { return d.Abs().Round(time.Millisecond) }
	switch {
	case apart > 0:
		alarms = append(alarms, replica.Alarm{Code: "clocks_differ", Message: fmt.Sprintf(
			"the clocks of the nodes differ by up to %v, and no majority of them agrees, so strict limits are not decided here: set the clocks right (NTP)", by(apart))})
	case correction < 0:
		alarms = append(alarms, replica.Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v ahead of those of most other nodes: it counts by theirs: set it right (NTP)", by(correction))})
	case correction > 0:
		alarms = append(alarms, replica.Alarm{Code: "clock_wrong", Message: fmt.Sprintf("this node's clock is %v behind those of most other nodes: it counts by theirs: set it right (NTP)", by(correction))})
	}
	return append(alarms, c.namesakeAlarm()...)
}
