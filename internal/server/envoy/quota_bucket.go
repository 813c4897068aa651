package envoy

import (
	"math"
	"slices"
	"time"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A quota is a token bucket that an Envoy fills and empties by itself, within a hold of the limit
// (admission.Table.SetHold). The one rule is
//
//	bursts + highest rate * horizon <= what is held
//
// over all assignments whose use may still count. A limit has one of two horizons:
//
//   - Its interval T, if T is short. The Envoy then uses at most what is held in any T, whatever it reports.
//   - If T is long, the time in which the Envoy may use something that it has not reported. What it reports counts as used of the
//     limit itself.
//
// Envoy counts an assignment's time from its arrival. An assignment is taken to arrive within quotaDelay after the hold was asked for.
// So a hold lasts for quotaLife + 2*quotaDelay after each renewal, and T longer: it ends after the last use has left the limit's
// interval.
const (
	quotaLife  = 25 * time.Second // of an assignment: more than quotaRenew + quotaDelay, so that none expires on a live stream
	quotaDelay = 15 * time.Second // of a message, at most
	quotaRenew = 5 * time.Second
	quotaIdle  = 2 * time.Minute // without requests, a bucket is abandoned

	// quotaLong is from which T on what Envoy reports counts as used.
	quotaLong = time.Hour

	// A quota that is scarce has a burst of one quotaBurst-th of what is held.
	quotaBurst = 64
)

// quotaBucket is what is known of one bucket of one Envoy. It is pure: all times come from one monotonic clock.
type quotaBucket struct {
	heard   time.Duration     // when it was reported
	every   time.Duration     // between the last two reports
	busy    time.Duration     // when requests were last reported
	demand  float64           // requests per second, as far as the quota is planned for it
	allowed uint64            // that were reported, and are not counted as used yet
	counted map[string]uint64 // by limit: how many of allowed are counted already, because another limit failed

	quota   quota // that was sent last
	sent    time.Duration
	earlier []quota // whose use may still count
}

// quota is an assignment. The zero quota denies all.
type quota struct {
	burst, fill uint64        // tokens at the start, and in each interval
	interval    time.Duration // whole seconds, as Envoy counts them
	until       time.Duration // of an earlier one: it is in use until then, at most
}

// rate is how many tokens there are in a time, rounded up.
func (q *quota) rate(in time.Duration) uint64 {
	if q.fill == 0 {
		return 0
	}
	return uint64(math.Ceil(float64(q.fill) * float64(in) / float64(q.interval)))
}

// report takes in what Envoy reports.
func (b *quotaBucket) report(now, elapsed time.Duration, allowed, denied uint64) {
	if allowed+denied > 0 {
		b.busy = now
	}
	b.heard, b.every = now, min(max(elapsed, time.Second), quotaIdle)
	b.allowed += allowed
	b.plan(float64(allowed+denied) / b.every.Seconds())
}

// plan changes the demand that is planned for, if it is another by much: a quota that stays the same costs no second burst.
func (b *quotaBucket) plan(demand float64) {
	if demand > b.demand*9/8 || demand < b.demand/2 {
		b.demand = demand
	}
}

// silent reports whether reports are missing.
func (b *quotaBucket) silent(now time.Duration) bool {
	return now-b.heard > 2*max(b.every, quotaRenew)
}

func byUse(limit engine.Limit) bool {
	return limit.Interval() >= quotaLong || limit.Algorithm == admit.GCRA || limit.Calendar.Unit != 0
}

func (b *quotaBucket) horizon(limit engine.Limit) time.Duration {
	if byUse(limit) {
		return quotaLife + 2*quotaDelay + 2*max(b.every, quotaRenew)
	}
	return limit.Interval()
}

// earlierOf returns the bursts and the highest rate of earlier quotas whose use may still count.
func (b *quotaBucket) earlierOf(now time.Duration, limit engine.Limit, list []quota) (bursts, rate uint64) {
	for i := range list {
		q := &list[i]
		if byUse(limit) && b.heard < q.until+quotaDelay || !byUse(limit) && now < q.until+limit.Interval() {
			bursts, rate = bursts+q.burst, max(rate, q.rate(b.horizon(limit)))
		}
	}
	return bursts, rate
}

// order is what to hold of a limit.
func (b *quotaBucket) order(now time.Duration, name string, limit engine.Limit) (h admit.Hold) {
	if b.silent(now) {
		b.plan(0)
	}
	if byUse(limit) {
		h.Used = b.allowed - b.counted[name]
		h.Counted = func() {
			if b.counted == nil {
				b.counted = map[string]uint64{}
			}
			b.counted[name] = b.allowed
		}
	}
	bursts, rate := b.earlierOf(now, limit, b.earlier)
	h.Need = 1 + bursts + b.quota.burst + max(rate, b.quota.rate(b.horizon(limit)))
	horizon := b.horizon(limit).Seconds()
	first := uint64(float64(limit.Burst) * min(1./128, 2*horizon/limit.Interval().Seconds())) // before anything is reported
	h.Want = min(limit.Burst, max(4, first)+uint64(2*b.demand*horizon))
	h.Life = quotaLife + 2*quotaDelay
	return h
}

// assign chooses the quota that fits into what is held of the limits, and keeps the one in use unless another is better by
// much. ok is false if nothing is to be sent now.
func (b *quotaBucket) assign(now time.Duration, held []admit.Changed) (ok bool) {
	b.allowed, b.counted = 0, nil
	if b.quota.burst > 0 && now-b.sent > quotaLife-quotaDelay { // it may have expired: sent again, it begins with its burst
		b.replace(b.sent+quotaLife+quotaDelay, quota{})
	}
	b.forget(now, held)
	if len(held) > 0 && held[0].Banned {
		b.replace(now+quotaDelay, quota{})
		b.sent = now
		return true
	}
	interval := time.Minute
	for i := range held {
		if limit := held[i].Limit; !byUse(limit) {
			interval = min(interval, max(time.Second, limit.Interval().Truncate(time.Second)))
		} else if b.silent(now) {
			return false
		}
	}
	next, shrinks := b.best(now, interval, held)
	switch has := &b.quota; {
	case next.fill == 0 && has.burst > 0: // what is in use fits
	case has.burst > 0 && !shrinks && next.fill <= has.fill+has.fill/quotaBurst && next.burst < 2*has.burst:
	case next.burst == has.burst && next.fill == has.fill:
	default:
		b.replace(now+quotaDelay, next)
	}
	b.sent = now
	return true
}

// replace puts a quota in use. What was in use is until the time until, at most.
func (b *quotaBucket) replace(until time.Duration, next quota) {
	if b.quota.burst > 0 {
		b.quota.until = until
		b.earlier = append(b.earlier, b.quota)
	}
	b.quota = next
}

// forget drops earlier quotas that no longer count.
func (b *quotaBucket) forget(now time.Duration, held []admit.Changed) {
	b.earlier = slices.DeleteFunc(b.earlier, func(q quota) bool {
		return !slices.ContainsFunc(held, func(h admit.Changed) bool {
			bursts, _ := b.earlierOf(now, h.Limit, []quota{q})
			return bursts > 0
		})
	})
}

// best is the quota with the highest rate that fits next to those that count, as far as the demand needs it, with the
// rest as its burst. The zero quota: none fits. shrinks: the one in use is more than what it has a claim to. One token is kept, with
// which a quota is replaced by a smaller one.
func (b *quotaBucket) best(now, interval time.Duration, held []admit.Changed) (next quota, shrinks bool) {
	counts := b.earlier
	if b.quota.burst > 0 {
		counts = append(slices.Clone(counts), b.quota)
		counts[len(counts)-1].until = now + quotaDelay
	}
	for i := range held {
		has := b.quota.burst + b.quota.rate(b.horizon(held[i].Limit))
		shrinks = shrinks || held[i].Freed < has-has/8
	}
	type part struct{ own, all, rate uint64 } // for the quota alone, with those that count, and the rate of those
	parts := make([]part, len(held))
	next = quota{burst: math.MaxUint32, fill: math.MaxUint32, interval: interval}
	for i := range held {
		h, p := &held[i], &parts[i]
		bursts, rate := b.earlierOf(now, h.Limit, counts)
		p.own, p.all, p.rate = min(h.Used, max(h.Freed, 1)), h.Used-min(h.Used, bursts), rate
		p.own -= min(p.own, 1)
		if !shrinks {
			p.all -= min(p.all, 1)
		}
		burst := max(1, min(2, p.own/8), p.own/quotaBurst)
		free := min(p.own, p.all)
		if p.all < rate+1 || free <= burst {
			return quota{}, shrinks
		}
		burst = min(burst, p.all-rate)
		next.burst = min(next.burst, burst)
		next.fill = min(next.fill, uint64(float64(free-burst)*float64(interval)/float64(b.horizon(h.Limit))))
	}
	if needs := uint64(math.Ceil(b.demand * interval.Seconds() * 5 / 4)); next.fill > needs {
		next.fill = max(needs, next.fill/2)
	}
	if next.fill == 0 {
		return quota{}, shrinks
	}
	most := uint64(math.MaxUint32)
	for i := range held {
		rate := next.rate(b.horizon(held[i].Limit))
		own, all := parts[i].own-min(parts[i].own, rate), parts[i].all-min(parts[i].all, max(rate, parts[i].rate))
		most = min(most, own, all)
	}
	if next.burst = most; most == 0 {
		return quota{}, shrinks
	}
	return next, shrinks
}

// strategy is a quota as Envoy knows it. Envoy's bucket fills all the time: by fill in each interval.
func (q *quota) strategy() *typev3.RateLimitStrategy {
	if q.burst == 0 {
		return blanket(typev3.RateLimitStrategy_DENY_ALL)
	}
	return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
		MaxTokens: uint32(q.burst), TokensPerFill: wrapperspb.UInt32(uint32(q.fill)), FillInterval: durationpb.New(q.interval),
	}}}
}

func blanket(rule typev3.RateLimitStrategy_BlanketRule) *typev3.RateLimitStrategy {
	return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}
