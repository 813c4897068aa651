package join

import (
	"regexp"
	"sync"
	"time"
)

const (
	// throttleEvery is how often a message of one shape is logged at most.
	throttleEvery = time.Minute
	// maxShapes bounds the shapes that are told apart: junk that reaches the cluster port is
	// quoted in messages, so whoever sends it could make as many as there is memory.
	maxShapes = 64
)

// varying are the words of a message that differ from one connection to the next:
// addresses, numbers and what was quoted.
var varying = regexp.MustCompile(`\S*[0-9'"]\S*`)

// throttle lets one message of each shape through a minute, and counts the others. The
// zero throttle is ready.
type throttle struct {
	mu     sync.Mutex
	shapes map[string]*shape
}

type shape struct {
	said   time.Time
	unsaid int
}

// pass tells whether to log a message now, and how many of its shape were not since the
// last one that was.
func (t *throttle) pass(message string, now time.Time) (unsaid int, ok bool) {
	key := varying.ReplaceAllString(message, "#")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shapes == nil {
		t.shapes = make(map[string]*shape)
	}
	s := t.shapes[key]
	if s == nil && len(t.shapes) >= maxShapes {
		t.forget(now)
		if len(t.shapes) >= maxShapes {
			key = "" // all further shapes together
			s = t.shapes[key]
		}
	}
	switch {
	case s == nil:
		t.shapes[key] = &shape{said: now}
		return 0, true
	case now.Sub(s.said) < throttleEvery:
		s.unsaid++
		return 0, false
	}
	unsaid = s.unsaid
	s.said, s.unsaid = now, 0
	return unsaid, true
}

// forget makes room: shapes that would be logged again now, and have nothing to tell, are
// as new ones.
func (t *throttle) forget(now time.Time) {
	for key, s := range t.shapes {
		if s.unsaid == 0 && now.Sub(s.said) >= throttleEvery {
			delete(t.shapes, key)
		}
	}
}
