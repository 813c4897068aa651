package leased

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
)

// message asks the holder of a group for some keys, and takes in its answer. of is each check and its
// entry, which is busy with this message, or nil; needs what requests need of it.
func (l *Leased) message(group int, of func(k int) (*weir.Check, *entry), needs []uint64) (a answer, err error) {
	sent, wall := l.side.Now(), time.Now().UnixNano() // before anything of the question is made: grants last from here
	q := question{node: l.cfg.Node, items: make([]item, len(needs))}
	for k := range needs {
		c, e := of(k)
		it := &q.items[k]
		if e == nil {
			it.record, it.key, it.shadow = limits.Record(c.Limit), c.Key, c.Shadow
			it.ask.Need = needs[k]
			continue
		}
		it.record, it.key = e.key.record, e.key.key
		it.shadow = c != nil && c.Shadow
		sh := l.shard(e.key.key)
		sh.mu.Lock()
		it.ask = e.Ask(sent, e.terms, needs[k], e.waiting)
		sh.mu.Unlock()
	}
	l.stats.asked.Add(1)
	b, err := l.holder.Ask(group, q.append(nil))
	if err == nil {
		a, err = readAnswer(b, len(q.items))
	}
	if err != nil || a.err != nil {
		return a, err
	}
	now := l.side.Now()
	for k := range needs {
		if _, e := of(k); e != nil {
			sh := l.shard(e.key.key)
			sh.mu.Lock()
			e.wall = wall + int64(e.terms.Life)
			e.Answered(now, sent, e.terms, &q.items[k].ask, &a.grants[k])
			l.noteLent(sh, e)
			sh.mu.Unlock()
		}
	}
	return a, nil
}

// noteLent has the tick look at an entry that has something. The caller holds sh.mu.
func (l *Leased) noteLent(sh *shard, e *entry) {
	if !e.Lent() {
		return
	}
	sh.lent[e] = struct{}{}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
