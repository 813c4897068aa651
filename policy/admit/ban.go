package admit

import (
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// banned decides requests of which a key is banned: they are denied, and nothing is taken. It tells whether there is one. policy.Shadow
// policies ban nobody. What the other limits say is what this node knows of them.
func (l *Live) banned(d *Decision) bool {
	side, any := limits.Of(l.engine), false
	for i := range d.Results {
		r := &d.Results[i]
		if r.Mode != policy.Enforce {
			continue
		}
		if left := side.Banned(r.Name, r.Key); left > 0 {
			r.Banned, any = true, true
			r.RetryAfter = left
		}
	}
	if !any {
		return false
	}
	d.verdicts = slices.Grow(d.verdicts[:0], len(d.checks))[:len(d.checks)]
	if _, err := l.engine.PeekAll(d.checks, d.verdicts); err != nil {
		clear(d.verdicts)
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.Banned {
			d.verdicts[i] = weir.Verdict{RetryAfter: r.RetryAfter, Reset: max(r.RetryAfter, d.verdicts[i].Reset)}
		}
	}
	d.settle(false)
	d.wait = 0 // a ban outlasts any wait
	return true
}

// banDenied bans the keys of policies with a DenyFor that have just been denied. A ban that finds no room is none: the limit goes on
// denying what is over.
func (l *Live) banDenied(d *Decision) {
	if d.Allowed {
		return
	}
	for i := range d.Results {
		r := &d.Results[i]
		if r.denyFor == 0 || r.Allowed || r.Never || r.Banned || r.Away != "" || r.Mode != policy.Enforce || r.N == 0 {
			continue
		}
		if err := l.Ban(r.Name, r.Key, r.denyFor); err != nil {
			l.bansFailed.Add(1)
			continue
		}
		r.RetryAfter = max(r.RetryAfter, r.denyFor)
		d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
	}
}

// Ban has all nodes deny a key, as it is counted, under the policy of a name, from now on for so long, in place of an earlier ban: at most
// weir.MaxBan. It is known to this node at once, to others when they follow the next flush. The error is a *weir.Error: CodeInvalidLimit
// where no policy that enforces has the name, CodeInvalidKey for a key that it never counts, CodeOverloaded where there is no room.
func (l *Live) Ban(name, key string, length time.Duration) error {
	set := l.Set()
	at, ok := set.Place(name)
	if !ok {
		return set.Unknown(name)
	}
	if set.At(at).Mode != policy.Enforce {
		return policy.Failure(weir.CodeInvalidLimit, "name", "limit %s is in shadow mode, which denies nobody", name)
	}
	if err := set.Counts(name, key); err != nil {
		return err
	}
	if length < policy.MinDenyFor || length > weir.MaxBan {
		return policy.Failure(weir.CodeInvalidTime, "for", "a ban for %s: must be 1s to 366d", units.FormatDuration(length))
	}
	return limits.Of(l.engine).Ban(name, key, length)
}

// Unban lifts the ban of a key under the limit of a name, on all nodes. It tells whether this one knew of one.
func (l *Live) Unban(name, key string) (was bool, err error) {
	side := limits.Of(l.engine)
	was = side.Banned(name, key) > 0
	return was, side.Ban(name, key, 0)
}

// Bans lists the bans that are not over, at most n, those that end last first.
func (l *Live) Bans(n int) []weir.KeyBan { return limits.Of(l.engine).Bans(n) }

// BansFailed is how many keys were not banned that DenyFor is for, since 100,000 were, or the journal could take no more.
func (l *Live) BansFailed() uint64 { return l.bansFailed.Load() }
