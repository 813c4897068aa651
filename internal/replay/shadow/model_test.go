package shadow

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// A deliberately naive model of what this package does: lists of times, and loops over
// all of them. It shares no code with the package, nor with the limits.

// ask is one line of a log.
type ask struct {
	at   int64 // Unix s
	n    int
	keys []string
}

// modelLimit is a policy: for keys with a prefix, counted by themselves.
type modelLimit struct {
	name, prefix string
	limit        engine.Limit // the burst filled in
	overrides    map[string]engine.Limit
	shadow       bool
}

func (m *modelLimit) limitOf(key string) engine.Limit {
	if l, ok := m.overrides[key]; ok {
		return l
	}
	return m.limit
}

// modelKey is what the model knows of one key of one limit.
type modelKey struct {
	asked, admitted, denied []int64 // times of decisions, Unix s
	elsewhere               int
}

// modelDenial is a line of the file of denials.
type modelDenial struct {
	at    int64 // of the line
	limit string
	key   string
	n     int
}

type model struct {
	limits  []modelLimit
	keys    map[string]map[string]*modelKey // by limit and key
	denials []modelDenial

	requests, unmatched, allowed, denied, late int
	latest, now                                int64
}

func runModel(limits []modelLimit, log []ask) *model {
	m := &model{limits: limits, keys: map[string]map[string]*modelKey{}}
	for _, l := range limits {
		m.keys[l.name] = map[string]*modelKey{}
	}
	for _, a := range log {
		if a.at < m.now {
			m.late++
			m.latest = max(m.latest, m.now-a.at)
		}
		m.now = max(m.now, a.at)
		denied := map[[2]string]int{}
		for range a.n {
			m.request(a.keys, denied)
		}
		for id, n := range denied {
			m.denials = append(m.denials, modelDenial{a.at, id[0], id[1], n})
		}
	}
	return m
}

// request decides one request.
func (m *model) request(keys []string, denials map[[2]string]int) {
	m.requests++
	type check struct {
		l      *modelLimit
		key    string
		k      *modelKey
		passes bool
	}
	var checks []check
	allowed := true
	for _, key := range keys {
		for i := range m.limits {
			l := &m.limits[i]
			if !strings.HasPrefix(key, l.prefix) {
				continue
			}
			if m.keys[l.name][key] == nil {
				m.keys[l.name][key] = &modelKey{}
			}
			k := m.keys[l.name][key]
			passes := admits(l.limitOf(key), k.admitted, m.now)
			checks = append(checks, check{l, key, k, passes})
			allowed = allowed && (passes || l.shadow)
		}
	}
	switch {
	case len(checks) == 0:
		m.unmatched++
	case allowed:
		m.allowed++
	default:
		m.denied++
	}
	for _, c := range checks {
		c.k.asked = append(c.k.asked, m.now)
		switch {
		case !c.passes:
			c.k.denied = append(c.k.denied, m.now)
			denials[[2]string{c.l.name, c.key}]++
		case allowed:
			c.k.admitted = append(c.k.admitted, m.now)
		default:
			c.k.elsewhere++
		}
	}
}

// admits is what each algorithm promises, in words of its documentation.
func admits(l engine.Limit, admitted []int64, at int64) bool {
	s := int64(time.Second)
	interval := up(int64(l.Per)*int64(l.Burst), int64(l.N))
	now := at * s
	var used int64
	switch {
	case l.Algorithm == limit.Fixed:
		for _, x := range admitted {
			if x*s/interval == now/interval {
				used++
			}
		}
	case l.Algorithm == limit.GCRA:
		width := up(int64(l.Per), int64(l.N))
		free := int64(0) // when the bucket is full again
		for _, x := range admitted {
			free = max(free, x*s) + width
		}
		return max(free, now)+width-now <= int64(l.Burst)*width
	default:
		for _, x := range admitted {
			if now-x*s < interval {
				used++
			}
		}
	}
	return used < int64(l.Burst)
}

func up(a, b int64) int64 { return (a + b - 1) / b }

// alone is how many requests of the keys without an override a limit would have denied
// if there were no other.
func (m *model) deniedAlone(l *modelLimit, n, burst uint64) (denied int) {
	with := l.limit
	with.N, with.Burst = n, burst
	for key, k := range m.keys[l.name] {
		if _, other := l.overrides[key]; other {
			continue
		}
		var admitted []int64
		for _, at := range k.asked {
			if admits(with, admitted, at) {
				admitted = append(admitted, at)
			} else {
				denied++
			}
		}
	}
	return denied
}

// peak is the most of the times that lie in an interval, and the first end of such a one.
func peak(times []int64, l engine.Limit) (most int, at int64) {
	interval := up(int64(l.Per)*int64(l.Burst), int64(l.N))
	for _, end := range times {
		n := 0
		for _, x := range times {
			if x <= end && (end-x)*int64(time.Second) < interval {
				n++
			}
		}
		if n > most {
			most, at = n, end
		}
	}
	return most, at
}

// stretch is the longest time of denials that are each within an interval of the one
// before.
func stretch(denied []int64, l engine.Limit) (longest int64) {
	interval := up(int64(l.Per)*int64(l.Burst), int64(l.N)*int64(time.Second))
	from := 0
	for i := range denied {
		if i > 0 && denied[i]-denied[i-1] > interval {
			from = i
		}
		longest = max(longest, denied[i]-denied[from])
	}
	return longest
}

// worstMinute is the most times in 60 seconds, and the first end of such.
func worstMinute(times []int64) (most int, at int64) {
	slices.Sort(times)
	return peak(times, engine.Limit{N: 1, Per: time.Minute, Burst: 1})
}

// mostDenied lists keys as the report does.
func (m *model) mostDenied(l *modelLimit) (keys []string) {
	for key, k := range m.keys[l.name] {
		if len(k.denied) > 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(len(m.keys[l.name][b].denied)-len(m.keys[l.name][a].denied), strings.Compare(a, b))
	})
	return keys
}
