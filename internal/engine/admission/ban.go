package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// A ban says that a key is denied under the limit of a name until a time, whatever it has used. All nodes know of
// it, of keys that they hold and of others. A Table keeps bans; who decides asks for them first.

// MaxBans bounds the bans that are made in one table. Bans of other nodes are in addition.
const MaxBans = 100_000

// keyID is a key under the limit of a name. It is the name that the limit was given: what nodes count apart
// has one grant and one ban for all of them.
type keyID struct{ name, key string }

func (id keyID) clone() keyID { return keyID{strings.Clone(id.name), strings.Clone(id.key)} }

// Ban bans a key under the limit of a name until a time of day in Unix ms, in place of an earlier ban; 0 lifts it.
func (ls *Table) Ban(name string, partition int, key string, until int64) error {
	s := ls.locked(partition)
	defer s.mu.Unlock()
	if err := ls.RefusesChange(); err != nil {
		return err
	}
	id := keyID{name, key}
	if _, again := s.bans[id]; !again && until > 0 && ls.bans.Load() >= MaxBans {
		return overloaded("100,000 bans are in use: wait until some are over, or lift some")
	}
	ls.ban(s, id, until)
	ls.record(s, &replication.Ban{ChangeOf: ls.changeOf(name, key), Until: max(until, 0)})
	return nil
}

// ban puts a ban in, or lifts it. The caller holds s.mu.
func (ls *Table) ban(s *share, id keyID, until int64) {
	if until <= ls.nowMs() {
		ls.unban(s, id)
		return
	}
	if s.bans == nil {
		s.bans = map[keyID]int64{}
	}
	if _, again := s.bans[id]; !again {
		ls.bans.Add(1)
	}
	s.bans[id.clone()] = until
}

// unban lifts a ban. The caller holds s.mu.
func (ls *Table) unban(s *share, id keyID) (was bool) {
	if _, was = s.bans[id]; was {
		delete(s.bans, id)
		ls.bans.Add(-1)
	}
	return was
}

// Banned is until when a key is banned under the limit of a name, in Unix ms, and now by the same clock; 0: it is not.
func (ls *Table) Banned(name string, partition int, key string) (until, now int64) {
	s := &ls.shares[partition]
	now = (ls.Clock.Now() + ls.Clock.Ahead()) / msOfNs
	s.mu.Lock()
	defer s.mu.Unlock()
	if until = s.bans[keyID{name, key}]; until <= now {
		return 0, now
	}
	return until, now
}

// AnyBanned tells whether there are bans: without, that is all that a decision pays for them.
func (ls *Table) AnyBanned() bool { return ls.bans.Load() > 0 }

// KeyBan is a ban: the key is denied under the limit of the name, until a time of day.
type KeyBan struct {
	Name, Key string
	Until     time.Time
}

// Bans lists the bans that are not over, at most n, those that end last first.
func (ls *Table) Bans(n int) (list []KeyBan) {
	now := (ls.Clock.Now() + ls.Clock.Ahead()) / msOfNs
	ls.eachShare(func(_ int, s *share) {
		for id, until := range s.bans {
			if until > now {
				list = append(list, KeyBan{id.name, id.key, time.UnixMilli(until)})
			}
		}
	})
	slices.SortFunc(list, func(a, b KeyBan) int {
		return cmp.Or(b.Until.Compare(a.Until), strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
	})
	return list[:min(n, len(list))]
}
