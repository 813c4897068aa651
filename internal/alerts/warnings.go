package alerts

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// keptWarnings is the most keys whose warnings are remembered. A key that was forgotten is warned about again, under the same ID.
const keptWarnings = 10_000

// shortestWarning is the shortest window: a limit per second would call each second.
const shortestWarning = time.Minute

type warnedKey struct{ rule, limit, key string }

// limitWarning has the words of api.DenialLimit.
type limitWarning struct {
	Alert      string  `json:"alert"`
	Name       string  `json:"name"`
	Key        string  `json:"key"`
	Used       uint64  `json:"used"`
	Limit      uint64  `json:"limit"`
	PerSeconds float64 `json:"per_s"`
	Burst      uint64  `json:"burst"`
	Calendar   string  `json:"calendar,omitempty"`
	Node       string  `json:"node,omitempty"`
}

// Warned receives each result that warns. It does not wait, and keeps no reference to r. Each node announces a key once in a window.
//
// Cost: a look-up for each alert of limits, and for the first warning of a key and window an event.
func (a *Alerts) Warned(r *admit.Result) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.rules.Load().list // their destinations stay while mu is held
	for i := range list {
		rule := &list[i]
		if !rule.warns || now.Before(a.warned[warnedKey{rule.name, r.Name, r.Key}]) || !rule.keys.Fits(r.Name) {
			continue
		}
		key := strings.Clone(r.Key)
		window, until := windowOf(r, now)
		if !rule.to.offer(a.newEvent(warningID(rule.name, r.Name, key, window), "weir.limit.warning", key, limitWarning{
			Alert: rule.name, Name: r.Name, Key: key, Used: r.Limit.Burst - r.Remaining, Limit: r.Limit.N, PerSeconds: r.Limit.Per.Seconds(), Burst: r.Limit.Burst,
			Calendar: r.Limit.Calendar.String(), Node: a.node,
		}), false) {
			a.dropped.Add(1)
			continue
		}
		for known := range a.warned {
			if len(a.warned) < keptWarnings {
				break
			}
			delete(a.warned, known)
		}
		a.warned[warnedKey{rule.name, r.Name, key}] = until
	}
}

// windowOf returns the window of a result that warns now. Its number is the same on all nodes, as far as their clocks
// agree; until its end the key is not warned about again. A calendar quota has its periods as windows. Any other limit
// has one window per interval, at least shortestWarning long. Windows are numbered from a common start, but end an
// interval from now. So a key that warns around the boundary of two windows is warned about once.
func windowOf(r *admit.Result, now time.Time) (number int64, until time.Time) {
	if r.Limit.Calendar.Unit != limit.NoUnit {
		until = now.Add(r.Reset)
		return until.Round(time.Minute).Unix(), until // edges are at whole minutes
	}
	window := max(r.Limit.Interval(), shortestWarning)
	return now.Truncate(window).Unix(), now.Add(window)
}

// warningID is the same for a key and window, whichever node sends it and however often.
func warningID(rule, limit, key string, window int64) string {
	sum := sha256.Sum256(strconv.AppendInt(wire.AppendText(wire.AppendText(wire.AppendText(nil, rule), limit), key), window, 10))
	return fmt.Sprintf("warning_%x", sum[:16])
}
