package counters

import (
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// Each cut has every counter that changed since the one before, as it is then. So a counter that changes a thousand
// times in a flush interval costs one record, and to apply records of one counter means to keep the last.
//
// Among nodes, one changes counters: the one with the last claim in the journal (internal/cluster/limits). It answers
// only once the journal has the change, and no later claim. A node that lost its claim without knowing may still write
// changes, which nobody was told about. What becomes of these must be the same on all nodes. So a record has the token
// of the claim, and in each partition one with a lower token than one before it is void. The node that wrote it finds it
// void too, as it comes back from the journal, and takes the change back: shard.before has what the journal has.

// image is what the journal has of a counter that this node has changed, until the change comes back from there.
type image struct {
	Counter
	exists bool
	number uint64 // of the last change that was cut; 0: none was
}

const nsOfMs = int64(time.Millisecond)

// Lead begins to change counters under the token of a claim. The journal must have been followed up to it.
func (t *Table) Lead(token uint64) {
	if t.token.Load() == token {
		return
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key, was := range s.before { // nothing of an earlier claim can come back any more
			t.install(s, key, was)
		}
		clear(s.before)
		s.mu.Unlock()
	}
	t.token.Store(token)
}

// change notes that a counter is about to change; nil: there is none yet.
func (t *Table) change(s *shard, key string, c *entry) {
	if !t.cfg.Journaled || c != nil && c.changed {
		return
	}
	if _, open := s.before[key]; !open && t.token.Load() != 0 {
		was := image{exists: c != nil}
		if c != nil {
			was.Counter = c.Counter
			was.Log = c.Log.clone()
		}
		s.before[key] = was
	}
	if s.changed[key] = c; c != nil {
		c.changed = true
	}
}

// install makes a counter what the journal says. Memory may be exceeded: what is in use is never dropped.
func (t *Table) install(s *shard, key string, to image) {
	c := s.keys[key]
	switch {
	case !to.exists && c != nil:
		t.remove(s, key)
	case !to.exists:
	case c == nil:
		t.used.Add(entryBytes + int64(len(key)))
		t.put(t.insert(s, key), to.Counter)
	default:
		t.put(c, to.Counter)
	}
}

// Cut appends a partition's changes since the cut before to a list. With state it returns all counters of the
// partition too, in the same form.
func (t *Table) Cut(partition int, list []replication.Change, state bool) (changes, all []replication.Change) {
	s := &t.shards[partition%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changed) == 0 && !state {
		return list, nil
	}
	ahead := t.cfg.Ahead()
	now := t.cfg.Clock.Now()
	for key, c := range s.changed {
		if t.cfg.Partitions > shardCount && t.cfg.PartitionOf(key) != partition {
			continue
		}
		s.number++
		one := t.record(key, c, now, ahead)
		one.Token, one.Number = t.token.Load(), s.number
		list = append(list, one)
		if was, open := s.before[key]; open {
			was.number = s.number
			s.before[key] = was
		}
		if delete(s.changed, key); c != nil {
			c.changed = false
		}
	}
	for key, c := range s.keys {
		if state && !c.expired(now/nsOfMs) && (t.cfg.Partitions <= shardCount || t.cfg.PartitionOf(key) == partition) {
			all = append(all, t.record(key, c, now, ahead))
		}
	}
	return list, all
}

// record is a counter as the journal has it; nil: it is gone.
func (t *Table) record(key string, c *entry, now, ahead int64) *replication.Counter {
	one := &replication.Counter{ChangeOf: replication.ChangeOf{Key: key, At: max(now+ahead, 0) / nsOfMs}, Gone: true}
	if c == nil || c.expired(now/nsOfMs) {
		return one
	}
	one.Gone, one.Value = false, c.Value
	if c.Expires != 0 {
		one.For = c.Expires - now/nsOfMs
	}
	if c.Log != nil {
		one.Log = c.Log.clone().times
	}
	return one
}

// Apply makes counters what a journal, or a state, says. own says that the records are this process's own, and come
// back from the journal.
func (t *Table) Apply(list []replication.Change, own bool) {
	for _, one := range list {
		if c, is := one.(*replication.Counter); is {
			t.apply(c, own)
		}
	}
}

func (t *Table) apply(c *replication.Counter, own bool) {
	partition := t.cfg.PartitionOf(c.Key)
	s := &t.shards[partition%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	valid := c.Token == 0 || c.Token >= t.tokens[partition]
	if valid {
		t.tokens[partition] = max(c.Token, t.tokens[partition])
	}
	is := image{exists: !c.Gone, Counter: t.read(c)}
	was, open := s.before[c.Key]
	if own && !open {
		return // a node alone, or a claim ago
	}
	if valid {
		is.number = was.number
		was = is
	}
	_, newer := s.changed[c.Key]
	switch {
	case !open && valid:
		t.install(s, c.Key, is)
	case !open:
	case own && was.number == c.Number && !newer:
		if delete(s.before, c.Key); !valid {
			t.install(s, c.Key, was)
		}
	default:
		s.before[c.Key] = was
	}
}

// read is the counter of a record, by this node's clock. A record is never from the future.
func (t *Table) read(c *replication.Counter) (to Counter) {
	to.Value = c.Value
	if c.For != 0 {
		now, ahead := t.cfg.Clock.Now(), t.cfg.Ahead()
		to.Expires = max(min(c.At-ahead/nsOfMs, now/nsOfMs)+c.For, 1)
	}
	if c.Log != nil {
		to.Log = &Log{c.Log}
	}
	return to
}
