package replication

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/sketch"
	"github.com/weir-counter/weir/window"
)

// Content is what the state of a partition has (Cut), apart from the engine that it is
// of: for one with other partitions or another retention, or one that has hits already.
type Content struct {
	Partitions int           // of the engine it is of
	Partition  int           // which of them
	Retention  time.Duration // of that engine

	Total   window.Window // of all hits of the partition
	Keys    []KeyWindow   // by key, which may have several: of seconds that have not come
	Evicted []Evicted     // hits of evicted keys, by place
	Past    int64         // as of State
	Limits  []LimitState  // what keys have used of limits that survive a restart
}

// ReadContent reads a state that a cut made. One that is damaged is an error that wraps
// ErrDamagedState.
func ReadContent(state []byte) (c Content, err error) {
	s, err := ReadState(state)
	if err != nil {
		return c, err
	}
	c = Content{Partitions: int(s.Partitions), Partition: int(s.Partition), Retention: time.Duration(s.Retention) * time.Second,
		Total: s.Total, Keys: s.Keys, Evicted: s.Evicted, Past: s.Past, Limits: s.Limits}
	for _, ahead := range s.Quarantined {
		if ahead.Key == allKeys {
			ahead.Key = ""
		}
		c.Keys = append(c.Keys, ahead)
	}
	slices.SortFunc(c.Keys, func(a, b KeyWindow) int {
		first, _ := a.Window.Newest()
		second, _ := b.Window.Newest()
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(first, second))
	})
	return c, nil
}

// WithRetention is the content with another retention. Where a shorter one was kept before, hits
// that had left by then may be in longer windows: they count among those of evicted
// keys, as upper bounds, and those of all keys among those of EvictedOfAll.
func (c Content) WithRetention(retention time.Duration) (Content, error) {
	was := int64(c.Retention / time.Second)
	k := c
	k.Retention = retention
	gone := map[int]Evicted{}
	for _, f := range c.Evicted {
		gone[f.Place] = f
	}
	keep := func(w *window.Window, places ...int) (window.Window, error) {
		kept, left, err := w.WithRetention(int64(retention / time.Second))
		newest, _ := kept.Newest()
		for _, place := range places {
			if f := gone[place]; left > 0 {
				hits := window.Exactly(f.Hits).Plus(window.Exactly(left)).Upper
				gone[place] = Evicted{place, hits, max(f.Newest, newest-was+1)}
			}
		}
		return kept, err
	}
	var err error
	if k.Total, err = keep(&c.Total, EvictedOfAll); err != nil {
		return c, err
	}
	k.Keys = make([]KeyWindow, len(c.Keys))
	for i, key := range c.Keys {
		places := []int{EvictedOfAll}
		if key.Key != "" {
			places = sketch.PlacesOf(key.Key)
		}
		if k.Keys[i].Window, err = keep(&key.Window, places...); err != nil {
			return c, err
		}
		k.Keys[i].Key = key.Key
	}
	k.Evicted = nil
	for place := range EvictedOfAll + 1 {
		if f, ok := gone[place]; ok {
			k.Evicted = append(k.Evicted, f)
		}
	}
	return k, nil
}
