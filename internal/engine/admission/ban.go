package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// A ban says that a key is denied under the limit of a name until a time, whatever it has used. All nodes know of
// it, of keys that they hold and of others. A Table keeps bans; who decides asks for them first.

const (
	// MaxBans bounds the bans that are made in one table. Bans of other nodes are in addition.
	MaxBans = 100_000

	// MaxBan is how long a ban is at most.
	MaxBan = 366 * 24 * time.Hour
)

// keyID is a key under the limit of a name, as the limit was given it: limits that nodes count separately have one grant
// and one ban for all nodes.
type keyID struct{ name, key string }

func (id keyID) clone() keyID { return keyID{strings.Clone(id.name), strings.Clone(id.key)} }

// Ban bans a key of a limit for 1 ms to MaxBan from now, whatever it has used. It replaces an earlier ban; 0 lifts it.
// With a journal, other nodes know the ban when they have followed the next flush, and a restart keeps it. The error is
// api.CodeOverloaded if there are too many bans. A ban denies nothing by itself: the caller that decides asks for it.
func (ls *Table) Ban(name, key string, length time.Duration) error {
	if err := keyspace.CheckKey(key); err != nil {
		return err
	}
	if length < 0 || length > MaxBan {
		return &keyspace.Error{Code: api.CodeInvalidTime, Field: "for", Message: fmt.Sprintf("a ban for %s: must be more than 0, and at most 366 days", length)}
	}
	until := int64(0) // Unix ms
	if length > 0 {
		until = ls.unixMs(ls.Clock.Now() + int64(length))
	}
	s := ls.lockedOf(key)
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

// Banned is for how long a key is banned under the limit of a name; 0: it is not.
func (ls *Table) Banned(name, key string) time.Duration {
	if !ls.AnyBanned() {
		return 0
	}
	now := ls.unixMs(ls.Clock.Now())
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	return time.Duration(max(0, s.bans[keyID{name, key}]-now)) * time.Millisecond
}

// AnyBanned reports whether there are bans: without, that is all that a decision pays for them.
func (ls *Table) AnyBanned() bool { return ls.bans.Load() > 0 }

// KeyBan is a ban: the key is denied under the limit of the name, until a time of day.
type KeyBan struct {
	Name, Key string
	Until     time.Time
}

// Bans lists the bans that are not over, at most n, those that end last first. O(bans).
func (ls *Table) Bans(n int) (list []KeyBan) {
	now := ls.unixMs(ls.Clock.Now())
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
