package shadow

import (
	"time"
	"unsafe"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

// rule is a limit that keys have: that of a policy, or of one of its overrides.
type rule struct {
	limit    weir.Limit
	keyed    *weir.KeyedLimit
	account  *account
	override bool
	interval time.Duration // that has at most the burst
	reach
}

func newRule(e *weir.Engine, a *account, l weir.Limit, override bool) (*rule, error) {
	keyed, err := e.Limit(a.policy.Name, l)
	if err != nil {
		return nil, err
	}
	plan, err := limit.New(l)
	if err != nil {
		return nil, err
	}
	recent := int64((plan.Interval() - 1) / time.Second)
	return &rule{
		limit: plan.Limit(), keyed: keyed, account: a, override: override, interval: plan.Interval(),
		reach: reach{recent: recent, memory: 2*recent + 1, most: plan.Limit().Burst},
	}, nil
}

// record is what is known of one counted key of a limit. It belongs to the goroutine that
// decides.
type record struct {
	key  string
	rule *rule
	gone bool // dropped by the ledger: a router's check must look the key up again

	// late says that an earlier record of the key may have been dropped: the requests
	// before its first denial may be missing.
	late bool

	requests, denied uint64
	first, last      int64 // denials, Unix s; if denied > 0
	stretchFrom      int64 // the first denial of the stretch under way
	stretch          int64 // the longest stretch, s
	demand
}

// recordBytes is the memory of a record beside its key and series: itself, and its place in
// a map that is two thirds full.
const recordBytes = int64(unsafe.Sizeof(record{})) + int64(unsafe.Sizeof("")+unsafe.Sizeof(uintptr(0))+1)*3/2

func (r *record) bytes() int64 { return recordBytes + int64(len(r.key)+cap(r.series)) }

// deny notes n denials. A stretch goes on while each denial is within an interval of the
// one before.
func (r *record) deny(at int64, n uint64) {
	switch {
	case r.denied == 0:
		r.first, r.stretchFrom = at, at
	case at-r.last > r.rule.recent+1:
		r.stretchFrom = at
	}
	r.denied += n
	r.last = at
	r.stretch = max(r.stretch, at-r.stretchFrom)
}
