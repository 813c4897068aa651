package admission

import "strings"

// forgetName is the name in records of changeForget, which is about limits of all names.
const forgetName = "keys"

// ForgetKeys forgets what the keys that begin with prefix have used of all limits, on whatever node, as Reset does for one key of one
// limit: with their grants and bans. It returns of how many keys there was something here, each counted for each limit.
//
// Cost: O(keys with limits in use), a partition at a time; each partition's next cut tells of it.
func (ls *Table) ForgetKeys(prefix string) (keys int, err error) {
	if why := ls.taken.Load(); why != nil {
		return 0, &OverloadedError{*why}
	}
	record := changeRecord(forgetName, changeForget) + prefix
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		keys += ls.forgetKeys(s, prefix, func(st *entry) bool {
			delete(s.fresh, st)
			ls.drop(s, st)
			return true
		}, true)
		ls.journalRecord(s, record, "*", ceilMs(ls.Clock.Now()+ls.Clock.Ahead()), 1)
		s.mu.Unlock()
	}
	return keys, nil
}

// forgetKeys calls reset with the states of keys that begin with prefix, which tells whether it did, and, if beside, forgets
// their grants, bans and reservations. It returns of how many keys there was something. The caller holds s.mu.
func (ls *Table) forgetKeys(s *share, prefix string, reset func(st *entry) bool, beside bool) int {
	was := map[grantID]struct{}{}
	s.table.Load().EachWith(prefix, func(st *entry) {
		if id := (grantID{BaseName(st.Value.plan.Name.Name), st.Key()}); reset(st) {
			was[id] = struct{}{}
		}
	})
	if !beside {
		return len(was)
	}
	for id := range s.grants {
		if strings.HasPrefix(id.key, prefix) {
			ls.ungrant(s, id)
			was[id] = struct{}{}
		}
	}
	for id := range s.bans {
		if strings.HasPrefix(id.key, prefix) {
			ls.unban(s, id)
			was[id] = struct{}{}
		}
	}
	s.forgetReserved(func(id partID) bool { return strings.HasPrefix(id.key, prefix) })
	return len(was)
}
