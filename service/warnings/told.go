package warnings

import (
	"container/list"
	"time"
)

// Kept is how many keys that were told are remembered. A key that others have pushed out is told again, under the same id.
const Kept = 10_000

// told is which keys were told, until when that holds. It is not safe for many goroutines.
type told struct {
	most   int
	byKey  map[counted]*list.Element
	oldest *list.List // of entry; the first was told first
}

type entry struct {
	of    counted
	until time.Time
}

func newTold(most int) *told {
	return &told{most: most, byKey: map[counted]*list.Element{}, oldest: list.New()}
}

// has tells whether a key was told, in the window of now.
func (t *told) has(of counted, now time.Time) bool {
	at, ok := t.byKey[of]
	return ok && now.Before(at.Value.(entry).until)
}

// add remembers a key, in the place of the one that was told first if there are too many.
func (t *told) add(of counted, until time.Time) {
	if at, ok := t.byKey[of]; ok {
		at.Value = entry{of, until}
		t.oldest.MoveToBack(at)
		return
	}
	if t.oldest.Len() == t.most {
		delete(t.byKey, t.oldest.Remove(t.oldest.Front()).(entry).of)
	}
	t.byKey[of] = t.oldest.PushBack(entry{of, until})
}
