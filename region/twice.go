package region

import (
	"slices"
	"time"
)

// Two regions of one name, which an operator has given twice, take each other's place: what they count is in all counts in
// turn, or that of one in none. It shows in two ways.
//
// A region that pulls says which epoch of its own name it has. An epoch goes on only until the next begins, and no
// region goes back: so digests of an older epoch that say they have what was counted well after that are another region's (twiceOfFeed).
//
// And where both reach the same region, each begins an epoch that is newer than the other's, again and again (contested).

// twiceFor is how long it is told after it showed last.
const twiceFor = time.Minute

// twiceAfter is how much later than a feed began the hits of a digest must be, in intervals between digests: clocks of regions
// agree within a second or two.
const twiceAfter = 10

// nameTwice notes that two regions have a name. The caller holds mu.
func (r *Region) nameTwice(name string, now time.Time) {
	if now.Sub(r.twice[name]) > twiceFor {
		r.log.Error("regions: two regions have the same name, and take each other's place in all counts: give one of them another --region and an empty data directory", "region", name)
	}
	r.twice[name] = now
}

// contested notes that there is an epoch of this region's name that it has not begun: the second one that is newer
// than an epoch of its own, within a while, is no earlier life's.
func (r *Region) contested(now time.Time) {
	if r.renewed.IsZero() {
		return
	}
	if !r.rival.IsZero() && now.Sub(r.rival) < twiceFor {
		r.mu.Lock()
		r.nameTwice(r.cfg.Name, now)
		r.mu.Unlock()
	}
	r.rival = now
}

// twiceOfFeed looks whether the digests that come under the name of a region that pulls are another's. The caller holds mu.
func (f *feed) twiceOfFeed(began time.Time) {
	of := f.r.ledger.Region(f.as)
	if of == nil || of.Gone || of.Epoch >= f.own.Epoch {
		return
	}
	if time.UnixMilli(of.At).Sub(began) > twiceAfter*f.r.cfg.Every {
		f.r.nameTwice(f.as, time.Now())
	}
}

// namesTwice are the names that two regions have, sorted.
func (r *Region) namesTwice() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, at := range r.twice {
		if time.Since(at) < twiceFor {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
