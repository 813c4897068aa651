package counters

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
)

// Each cut has every counter that changed since the one before, as it is then. So a counter that changes a thousand
// times in a flush interval costs one record, and to apply records of one counter means to keep the last.
//
// Among nodes, one changes counters: the one with the last claim in the journal (internal/cluster/limits). It answers
// only once the journal has the change, and no later claim. A node that lost its claim without knowing may still write
// changes, which it never acknowledged. What becomes of these must be the same on all nodes. So a record has the token
// of the claim, and in each partition one with a lower token than one before it is void. The node that wrote it finds it
// void too, as it comes back from the journal, and takes the change back: shard.before has what the journal has.

// image is what the journal has of a counter that this node has changed, until the change comes back from there.
type image struct {
	Counter
	exists  bool
	number  uint64 // of the last change that was cut; 0: none was
	pending bool   // there is a change that was not cut
}

const nsOfMs = int64(time.Millisecond)

// Lead begins to change counters under the token of a claim. The journal must have been followed up to it. All callers
// return once the first has done so, and a token that is not above the present one changes nothing.
//
// What the journal does not have is taken back on all shards as one step, so that no part of a transaction stays.
func (t *Table) Lead(token uint64) {
	if t.token.Load() >= token {
		return
	}
	v := t.View()
	v.Hold(AllShards)
	defer v.Release()
	before := t.token.Load()
	if before >= token {
		return
	}
	for i := range t.shards {
		s := &t.shards[i]
		for key, was := range s.before { // nothing of an earlier claim can come back any more
			t.install(s, key, was)
		}
		clear(s.before)
	}
	if before != 0 { // what no cut has was taken back too: it must not count as a change of the new claim
		for i := range t.parts {
			t.listed(i, func(*entry) {})
		}
	}
	t.token.Store(token)
}

// change notes that a counter is about to change, or to get its first value.
func (t *Table) change(s *shard, c *entry, exists bool) {
	if !t.cfg.Journaled || c.changed {
		return
	}
	c.changed = true
	p := &t.parts[c.partition]
	p.changed = append(p.changed, c)
	if t.token.Load() == 0 {
		return
	}
	was, open := s.before[c.key]
	if !open {
		was.exists, was.Counter = exists, c.Counter
		was.Log = c.Log.clone()
	}
	was.pending = true
	s.before[c.key] = was
}

// listed calls f for the changes of a partition that no cut has, and empties their list.
func (t *Table) listed(partition int, f func(c *entry)) {
	s, p := &t.shards[partition%shardCount], &t.parts[partition]
	for _, c := range p.changed {
		f(c)
		if c.changed = false; c.removed {
			t.forget(s, c)
		}
	}
	if clear(p.changed); cap(p.changed) > maxKept {
		p.changed = nil
	}
	p.changed = p.changed[:0]
}

// install makes a counter what the journal says. Memory may be exceeded: what is in use is never dropped.
func (t *Table) install(s *shard, key string, to image) {
	c := s.keys[key]
	switch {
	case !to.exists && c != nil:
		t.remove(s, key)
	case !to.exists:
	case c == nil:
		t.sweep(s, t.Now(), sweptEach) // on a node that follows, no command looks at the expired ones
		c = t.insert(s, key)
		t.used.Add(c.bytes())
		t.put(c, to.Counter)
	default:
		t.put(c, to.Counter)
	}
}

// Cut appends a partition's changes since the cut before to a list. With state it returns all counters of the
// partition too, in the same form. They have the highest token of the partition's changes, so that a node which starts
// from them finds the same changes void. A partition without counters has a record of a key that there is not.
func (t *Table) Cut(partition int, list []replication.Change, state bool) (changes, all []replication.Change) {
	s, p := &t.shards[partition%shardCount], &t.parts[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.changed) == 0 && !state {
		return list, nil
	}
	now, ahead, token := t.cfg.Clock.Now(), t.cfg.Ahead(), t.token.Load()
	records := make([]replication.Counter, len(p.changed))
	list = slices.Grow(list, len(records))
	first := len(list)
	t.listed(partition, func(c *entry) {
		one := &records[0]
		records = records[1:]
		p.number++
		c.record(one, now, ahead)
		one.Token, one.Number = token, p.number
		list = append(list, one)
		if was, open := s.before[c.key]; open {
			was.number, was.pending = p.number, false
			s.before[c.key] = was
		}
	})
	if len(list) > first {
		p.cut = token
	}
	if !state {
		return list, nil
	}
	token = max(p.token, p.cut)
	for _, c := range s.keys {
		if int(c.partition) == partition && !c.expired(now/nsOfMs) {
			one := new(replication.Counter)
			c.record(one, now, ahead)
			one.Token = token
			all = append(all, one)
		}
	}
	if len(all) == 0 && token != 0 {
		one := &replication.Counter{Token: token, Gone: true}
		one.At = max(now+ahead, 0) / nsOfMs
		for i := 0; one.Key == "" || t.cfg.PartitionOf(one.Key) != partition; i++ {
			one.Key = strconv.Itoa(i)
		}
		all = append(all, one)
	}
	return list, all
}

// maxKept is for how many changes of a partition memory is kept after a cut.
const maxKept = 1024

// record writes a counter as the journal has it.
func (c *entry) record(to *replication.Counter, now, ahead int64) {
	to.Key, to.At = c.key, max(now+ahead, 0)/nsOfMs
	if to.Gone = c.removed || c.expired(now/nsOfMs); to.Gone {
		return
	}
	if to.Value = c.Value; c.Expires != 0 {
		to.For = c.Expires - now/nsOfMs
	}
	if c.Log != nil {
		to.Log = c.Log.clone().times
	}
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
	p := &t.parts[partition]
	valid := c.Token == 0 || c.Token >= p.token
	if valid {
		p.token = max(c.Token, p.token)
	}
	is := image{exists: !c.Gone, Counter: t.read(c)}
	was, open := s.before[c.Key]
	if own && !open {
		return // a node alone, or a claim ago
	}
	if valid {
		is.number, is.pending = was.number, was.pending
		was = is
	}
	switch {
	case !open && valid:
		t.install(s, c.Key, is)
	case !open:
	case own && was.number == c.Number && !was.pending:
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
		at := min(c.At-ahead/nsOfMs, now/nsOfMs)
		to.Expires = max(at+min(c.For, math.MaxInt64-max(at, 0)), 1)
	}
	if c.Log != nil {
		to.Log = &Log{c.Log}
	}
	return to
}
