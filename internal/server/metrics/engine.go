package metrics

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

var engineMetrics = []struct{ name, field, help string }{
	{"weir_hits_total", "Hits", "Hits counted, including late ones, without decisions of limits."},
	{"weir_late_hits_total", "Late", "Hits counted that were older than the newest of their key."},
	{"weir_too_late_hits_total", "TooLate", "Hits not counted: older than the retention."},
	{"weir_history_hits_total", "ForHistory", "Hits older than the retention. They are in history only, and not in weir_hits_total."},
	{"weir_too_far_ahead_hits_total", "TooFarAhead", "Hits refused: too far in the future."},
	{"weir_quarantined_hits_total", "Quarantined", "Hits from other nodes, snapshots or earlier runs that are minutes ahead of this node's clock. They count when their second comes."},
	{"weir_clock_correction_seconds", "ClockCorrection", "Seconds that this node adds to its machine's time of day to agree with most other nodes."},
	{"weir_limit_clock_behind_seconds", "LimitClockBehind", "Seconds by which the time of day has moved ahead of the limits' clock since the start, because it was set or the machine was suspended. Limits are not affected."},
	{"weir_keys", "Keys", "Keys held."},
	{"weir_hot_keys", "HotKeys", "Keys with slots instead of single hits."},
	{"weir_distinct_keys", "DistinctKeys", "Keys whose hits had ids."},
	{"weir_distinct_bytes", "DistinctBytes", "Part of weir_memory_bytes for ids, at most half of the budget."},
	{"weir_evicted_keys_total", "EvictedKeys", "Keys dropped to keep the memory budget."},
	{"weir_evicted_hits_total", "EvictedHits", "Hits that left with evicted keys."},
	{"weir_expired_keys_total", "ExpiredKeys", "Keys dropped because all their hits were older than the retention."},
	{"weir_memory_bytes", "Bytes", "Memory of the keys, as the budget counts it."},
	{"weir_memory_budget_bytes", "MemoryBudget", "The memory budget."},
	{"weir_waiting_deltas", "Waiting", "Hits that wait for the journal, one for each key and second."},
	{"weir_limit_states", "LimitStates", "Keys with usage of limits, counted for each limit, and some idle ones."},
	{"weir_limit_bytes", "LimitBytes", "Memory of weir_limit_states, as the budget counts it."},
	{"weir_limit_refused_total", "LimitRefused", "Requests that could not be decided because --limit-memory was full of limits in use."},
	{"weir_limit_budget_bytes", "LimitBudget", "The budget of weir_limit_bytes."},
	{"weir_inline_limit_bytes", "InlineBytes", "Part of weir_limit_bytes for limits sent with requests, at most a quarter of the budget."},
	{"weir_idempotency_keys", "OnceKeys", "Remembered Idempotency-Keys of all nodes."},
	{"weir_idempotency_bytes", "OnceBytes", "Memory of the Idempotency-Keys that reached this node first."},
	{"weir_idempotency_budget_bytes", "OnceBudget", "The budget of weir_idempotency_bytes; other nodes' keys have twice as much."},
	{"weir_idempotency_refused_total", "OnceRefused", "Requests that were refused, and not counted, because the memory for Idempotency-Keys was full."},
	{"weir_idempotency_dropped_total", "OnceDropped", "Idempotency-Keys of other nodes or earlier runs that were forgotten before ten minutes."},
}

func newEngineCollector(stats func() engine.Stats) *collector {
	metrics := make([]metric, len(engineMetrics))
	for i, m := range engineMetrics {
		metrics[i] = metric{m.name, m.help, ""}
	}
	return newCollector(metrics, func(emit emit) {
		values := reflect.ValueOf(stats())
		for _, m := range engineMetrics {
			emit(m.name, number(values.FieldByName(m.field)))
		}
	})
}

const (
	// MaxKeySeries bounds the series of keys, of all prefixes together.
	MaxKeySeries = 1000

	loadWindow = 5 * time.Minute // of weir_key_hits
	rateWindow = time.Minute     // of weir_key_hits_per_second
	keySeries  = 6               // of each key
	maxKeys    = (MaxKeySeries - 1) / keySeries

	// Which keys are shown is chosen anew after this time at least, and after so many times what it took.
	minChoice   = 10 * time.Second
	choiceShare = 20
)

// keyCollector tells how often keys were hit lately that begin with chosen prefixes: those with most hits.
type keyCollector struct {
	*collector

	service  *service.Service
	prefixes []string // none within another
	clock    func() time.Time

	mu   sync.Mutex
	keys []string
	more bool      // some are left out
	next time.Time // when keys are chosen again
}

func newKeyCollector(s *service.Service, prefixes []string) *keyCollector {
	c := &keyCollector{service: s, prefixes: outermost(prefixes), clock: time.Now}
	metrics := []metric{{"weir_key_series_left_out", "1 while keys of --metrics-keys with fewer hits have no series: there are 1,000 at most.", ""}}
	for name, help := range map[string]string{
		"weir_key_hits":            "Hits of a key in the last 5 minutes, of all nodes: do not sum it over nodes.",
		"weir_key_hits_per_second": "Hits of a key per second, the mean of the last minute, of all nodes: do not sum it over nodes.",
	} {
		metrics = append(metrics, metric{name, help, "key"}, metric{name + "_lower", "The least that " + name + " may be.", "key"},
			metric{name + "_upper", "The most that " + name + " may be. There is none while a node is late.", "key"})
	}
	c.collector = newCollector(metrics, c.read)
	return c
}

// outermost leaves out prefixes that begin with another.
func outermost(prefixes []string) (list []string) {
	sorted := slices.Sorted(slices.Values(prefixes))
	for _, p := range sorted {
		if len(list) == 0 || !strings.HasPrefix(p, list[len(list)-1]) {
			list = append(list, p)
		}
	}
	return list
}

// read passes the counts. Where other nodes do not answer in time there are no series: a gap says more than an old number.
func (c *keyCollector) read(emit emit) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	keys, more := c.chosen(ctx)
	emit("weir_key_series_left_out", oneIf(more))
	counts, err := c.service.KeyFigures(ctx, keys, []time.Duration{loadWindow, rateWindow})
	if err != nil {
		return
	}
	for i, key := range keys {
		load, rate := counts[2*i], counts[2*i+1].Per(int64(rateWindow/time.Second))
		emit("weir_key_hits", float64(load.Estimate), key)
		emit("weir_key_hits_lower", float64(load.Lower), key)
		emit("weir_key_hits_per_second", rate.Estimate, key)
		emit("weir_key_hits_per_second_lower", rate.Lower, key)
		if load.Upper != nil {
			emit("weir_key_hits_upper", float64(*load.Upper), key)
		}
		if rate.Upper != nil {
			emit("weir_key_hits_per_second_upper", *rate.Upper, key)
		}
	}
}

// chosen are the keys with most hits, as of some time ago: to find them takes long where there are many.
func (c *keyCollector) chosen(ctx context.Context) (keys []string, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.clock()
	if began.Before(c.next) {
		return c.keys, c.more
	}
	keys, err := c.service.BusiestKeys(ctx, loadWindow, maxKeys+1, c.prefixes)
	if err != nil {
		return c.keys, c.more // the next scrape asks again
	}
	c.more = len(keys) > maxKeys
	keys = keys[:min(len(keys), maxKeys)]
	c.keys = slices.DeleteFunc(keys, func(key string) bool { return !utf8.ValidString(key) }) // Prometheus has no other labels
	ended := c.clock()
	c.next = ended.Add(max(minChoice, choiceShare*ended.Sub(began)))
	return c.keys, c.more
}
