package weir

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/admission"
	"github.com/weir-counter/weir/limit"
)

// Refund gives back up to n admissions that the key took, all at one time, and returns by
// how many more are free for it: fewer than n where some have left the window, or the
// bucket has filled since. taken is by the time of day; the zero Time stands for the
// newest admissions. The limit holds for what was really used, if taken is right.
//
// A change to what a key has used is journaled as its admissions are. The error is an
// Error as of Take.
func (l *KeyedLimit) Refund(key string, n uint64, taken time.Time) (free uint64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	limits := l.engine.limits
	at := int64(admission.Newest)
	if !taken.IsZero() {
		if at, err = unixNano("taken", taken); err != nil {
			return 0, err
		}
		at -= limits.Clock.Ahead()
	}
	free, err = limits.Refund(l.plan.Load(), l.engine.keys.PartitionOf(key), key, at, n)
	return free, limitError(err)
}

// Reset forgets what the key has used of all limits of the name, those that nodes of a
// cluster count apart too, and its grant: it has its whole burst again. It tells whether
// there was something.
func (l *KeyedLimit) Reset(key string) (was bool, err error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	was, err = l.engine.limits.Reset(l.name, l.engine.keys.PartitionOf(key), key)
	return was, limitError(err)
}

// MaxGrants is how many grants an engine makes that are not over.
const MaxGrants = admission.MaxGrants

// Grant gives the key n admissions more than the limit, 1 to limit.MaxBurst, to be used until
// a time of day: a request that the limit would deny uses what is left of the limit, and the
// rest of the grant. It stands in place of an earlier grant of the key, so that it may be
// sent again; n of 0 takes that back. All limits of the name have one together.
func (l *KeyedLimit) Grant(key string, n uint64, until time.Time) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if n > limit.MaxBurst {
		return &Error{CodeInvalidCount, "n", fmt.Sprintf("a grant of %d: at most %d", n, uint64(limit.MaxBurst))}
	}
	var at int64
	if n > 0 {
		var err error
		if at, err = unixNano("until", until); err != nil {
			return err
		}
		if now := l.engine.clock.Wall.Time(); !until.After(now) {
			return &Error{CodeInvalidTime, "until", fmt.Sprintf("%s is over: it is %s", until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
		}
	}
	return limitError(l.engine.limits.Grant(l.name, l.engine.keys.PartitionOf(key), key, n, at/int64(time.Millisecond)))
}

// unixNano is a time that an int64 has.
func unixNano(field string, t time.Time) (int64, error) {
	if s := t.Unix(); s < 0 || s > 9_000_000_000 {
		return 0, &Error{CodeInvalidTime, field, fmt.Sprintf("%s: must be 1970 to 2255", t.UTC().Format(time.RFC3339))}
	}
	return t.UnixNano(), nil
}
