package admit

import "github.com/weir-counter/weir/policy"

// Dropped is a policy that another Set took out while keys had used some of it.
type Dropped struct {
	Name      string
	KeysInUse int // on this node
}

// Dropped returns what the last Replace took out while it was in use, in the order of the
// earlier file. Keys that only such a policy was for have no limit any more. What they have
// used stays for a while, for a policy that is put back.
func (l *Live) Dropped() []Dropped {
	if d := l.dropped.Load(); d != nil {
		return *d
	}
	return nil
}

// noteDropped looks for what is in was, nil at first, and not in now.
func (l *Live) noteDropped(was *bound, now *policy.Set) {
	var dropped []Dropped
	if was != nil {
		for i := range was.policies {
			name := was.set.At(i).Name
			if _, stays := now.Place(name); stays {
				continue
			}
			if keys := was.policies[i].limit.KeysInUse(); keys > 0 {
				dropped = append(dropped, Dropped{name, keys})
			}
		}
	}
	l.dropped.Store(&dropped)
}
