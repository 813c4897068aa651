package shadow

import (
	"cmp"
	"slices"
)

// ledger keeps the records within a budget. When they do not fit, it drops what says the
// least, until a quarter of the budget is free:
//
//  1. records of keys that were never denied and have not asked lately, then of all that
//     were never denied: of a key that comes again, the requests before are missing;
//  2. the demand of all keys before their newest interval: what another limit would have
//     denied is then not known;
//  3. the records with the fewest denials: those keys may be missing from the list of the
//     most denied, and count twice as denied keys when they come again.
type ledger struct {
	budget int64 // bytes
	bytes  int64
}

// find gives c the record of its key, a new one if there is none.
func (l *ledger) find(c *check) {
	if c.record != nil && !c.record.gone {
		return
	}
	a := c.rule.account
	if c.record = a.records[c.key]; c.record != nil {
		return
	}
	c.record = &record{key: c.key, rule: c.rule, late: a.dropped}
	a.records[c.key] = c.record
	a.keys++
	l.bytes += c.record.bytes()
}

// keep makes room, if there is need, at a time in Unix s. It is called between requests.
func (l *ledger) keep(accounts []*account, now int64) {
	if l.bytes <= l.budget {
		return
	}
	for _, make := range []func([]*account, int64){l.dropIdle, l.dropUndenied, l.cutDemand, l.thin} {
		if make(accounts, now); l.bytes <= l.budget/4*3 {
			return
		}
	}
}

func (l *ledger) dropIdle(accounts []*account, now int64) {
	for _, a := range accounts {
		for _, r := range a.records {
			if r.denied == 0 && !r.whole && r.at < now-r.rule.memory {
				l.drop(a, r)
			}
		}
	}
}

func (l *ledger) dropUndenied(accounts []*account, _ int64) {
	for _, a := range accounts {
		for _, r := range a.records {
			if r.denied == 0 {
				a.cut = true // also the demand that would have been denied later
				l.drop(a, r)
			}
		}
	}
}

func (l *ledger) drop(a *account, r *record) {
	delete(a.records, r.key)
	l.bytes -= r.bytes()
	r.gone = true
	a.dropped = true
}

func (l *ledger) cutDemand(accounts []*account, _ int64) {
	for _, a := range accounts {
		for _, r := range a.records {
			l.bytes -= int64(cap(r.series))
			r.demand.drop()
			l.bytes += int64(cap(r.series))
			a.cut = true
		}
	}
}

// thin drops the half of all records that has the fewest denials.
func (l *ledger) thin(accounts []*account, _ int64) {
	var all []*record
	for _, a := range accounts {
		for _, r := range a.records {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.denied, b.denied), cmp.Compare(a.key, b.key))
	})
	for _, r := range all[:(len(all)+1)/2] {
		r.rule.account.thinned = true
		l.drop(r.rule.account, r)
	}
}
