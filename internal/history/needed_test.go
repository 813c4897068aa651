package history

import (
	"testing"
	"time"
)

// The journal is kept for the history of every node, and once there is haste for hits that nothing else has. Whoever is absent or
// stuck is waited for only if nobody is further: it copies a file later.
func TestNeededByAllNodes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	const past = 1_699_999_990_000
	node := func(needed uint64, asOf int64, silent time.Duration, stuck bool) peerState {
		return peerState{needed: needed, kept: needed, asOf: asOf, stuck: stuck, seen: now.Add(-silent)}
	}
	late, done := int64(past), past+clockMargin.Milliseconds()
	donor := node(90, done, 0, false)
	donor.kept = 20
	for name, c := range map[string]struct {
		all         []peerState
		past        int64
		slow, haste uint64
	}{
		"alone, no hits of the past":    {[]peerState{node(7, late, 0, false)}, 0, 7, 0},
		"alone, late":                   {[]peerState{node(7, late, 0, false)}, past, 7, 7},
		"alone, late and stuck":         {[]peerState{node(7, late, 0, true)}, past, 7, 7},
		"alone, it has them":            {[]peerState{node(7, done, 0, false)}, past, 7, 0},
		"another one is late":           {[]peerState{node(9, done, 0, false), node(7, late, 0, false)}, past, 7, 7},
		"another one is stuck":          {[]peerState{node(9, done, 0, false), node(7, late, 0, true)}, past, 7, 0},
		"another one is absent":         {[]peerState{node(9, done, 0, false), node(7, late, 2*time.Minute, false)}, past, 7, 0},
		"all that go on are late":       {[]peerState{node(9, late, 0, false), node(7, late, 2*time.Minute, false)}, past, 7, 9},
		"this one is stuck":             {[]peerState{node(7, late, 0, true), node(9, late, 0, false)}, past, 7, 9},
		"all are stuck":                 {[]peerState{node(9, late, 0, true), node(7, late, 0, true)}, past, 7, 7},
		"a copy of this one is fetched": {[]peerState{donor}, past, 20, 0},
	} {
		if slow, haste := neededOf(c.all, false, c.past, now), neededOf(c.all, true, c.past, now); slow != c.slow || haste != c.haste {
			t.Errorf("%s: message %d, with haste %d; want %d and %d", name, slow, haste, c.slow, c.haste)
		}
	}
}

// What the journal keeps of requests before a history's position is a minute of messages, or more.
func TestSettledMessage(t *testing.T) {
	var m marks
	now := time.Now()
	for _, step := range []struct {
		after         time.Duration
		message, want uint64
	}{
		{0, 5, 0}, {30 * time.Second, 7, 0}, {time.Minute, 9, 5}, {90 * time.Second, 20, 5}, {2 * time.Minute, 21, 9}, {time.Hour, 21, 21},
		{time.Hour, 3, 0}, {time.Hour + time.Minute, 4, 3}, // a file that is not as far was adopted
	} {
		if got := m.settled(step.message, now.Add(step.after)); got != step.want {
			t.Errorf("after %v at message %d: %d, want %d", step.after, step.message, got, step.want)
		}
	}
}
