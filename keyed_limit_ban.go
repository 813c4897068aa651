package weir

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/admission"
)

const (
	// MaxBan is how long a ban is at most.
	MaxBan = 366 * 24 * time.Hour

	// MaxBans is how many bans an engine makes that are not over.
	MaxBans = admission.MaxBans
)

// KeyBan is a ban: the key is denied under the limit of the name, until a time of day.
type KeyBan struct {
	Name, Key string
	Until     time.Time
}

// Ban is that of package internal/limits.
func (r *side) Ban(name, key string, length time.Duration) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if length < 0 || length > MaxBan {
		return &Error{CodeInvalidTime, "for", fmt.Sprintf("a ban for %s: must be more than 0, and at most 366 days", length)}
	}
	until := int64(0)
	if length > 0 {
		limits := r.engine.limits
		until = (limits.Clock.Now() + limits.Clock.Ahead() + int64(length)) / int64(time.Millisecond)
	}
	return limitError(r.engine.limits.Ban(name, r.engine.keys.PartitionOf(key), key, until))
}

// Banned is that of package internal/limits.
func (r *side) Banned(name, key string) time.Duration {
	if !r.engine.limits.AnyBanned() {
		return 0
	}
	until, now := r.engine.limits.Banned(name, r.engine.keys.PartitionOf(key), key)
	return time.Duration(max(0, until-now)) * time.Millisecond
}

// Bans is that of package internal/limits.
func (r *side) Bans(n int) (list []KeyBan) {
	for _, b := range r.engine.limits.Bans(n) {
		list = append(list, KeyBan{b.Name, b.Key, time.UnixMilli(b.Until)})
	}
	return list
}
