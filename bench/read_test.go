package bench

import (
	"testing"
	"time"

	"github.com/paulbellamy/ratecounter"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/adapter"
	"github.com/weir-counter/weir/bench/textbook"
)

const (
	week    = 7 * 86_400
	billion = 1_000_000_000
)

// BenchmarkRead is a count, after a week with a hit every second, in three
// cases, and what is timed of each:
//
//	still                the same count again and again
//	hit, hit-alone       a hit in the same second before each count; the hit alone
//	second, second-alone time moves on by a second and brings a hit before each count; the hit alone
func BenchmarkRead(b *testing.B) {
	for _, window := range []struct {
		name    string
		seconds int64
	}{{"300s", 300}, {"week", week}, {"1e9s", billion}} {
		b.Run("window="+window.name, func(b *testing.B) {
			for _, design := range readDesigns(b, window.seconds) {
				b.Run("design="+design.name, func(b *testing.B) {
					counter := design.make(b)
					for at := int64(startSecond); at < startSecond+week; at++ {
						counter.Hit(at)
					}
					benchmarkCases(b, counter, window.seconds)
				})
			}
		})
	}
}

type readDesign struct {
	name string
	make func(b *testing.B) textbook.Counter
}

func readDesigns(b *testing.B, seconds int64) []readDesign {
	designs := []readDesign{
		{"weir.Counter", func(b *testing.B) textbook.Counter { return weirCounter(b, seconds) }},
		{"weir.Engine", func(b *testing.B) textbook.Counter { return weirKey(b, seconds) }},
	}
	if seconds == 300 {
		designs = append(designs, readDesign{"ratecounter", func(*testing.B) textbook.Counter {
			return adapter.RateCounter{Peer: ratecounter.NewRateCounter(300 * time.Second)}
		}})
	}
	if seconds == billion { // an array of a billion seconds takes 8 or 16 GB
		return designs
	}
	for _, design := range textbook.Designs() {
		designs = append(designs, readDesign{design.Name, func(*testing.B) textbook.Counter { return design.New(seconds) }})
	}
	return designs
}

var sink int64 // keeps the compiler from dropping the counts

func benchmarkCases(b *testing.B, counter textbook.Counter, seconds int64) {
	at := int64(startSecond + week - 1)
	b.Run("case=still", func(b *testing.B) {
		for b.Loop() {
			sink += counter.Count(at, seconds)
		}
	})
	b.Run("case=hit", func(b *testing.B) {
		for b.Loop() {
			counter.Hit(at)
			sink += counter.Count(at, seconds)
		}
	})
	b.Run("case=hit-alone", func(b *testing.B) {
		for b.Loop() {
			counter.Hit(at)
		}
	})
	b.Run("case=second", func(b *testing.B) {
		for b.Loop() {
			at++
			counter.Hit(at)
			sink += counter.Count(at, seconds)
		}
	})
	b.Run("case=second-alone", func(b *testing.B) {
		for b.Loop() {
			at++
			counter.Hit(at)
		}
	})
}

// The retention of both is a week, so that a week's window is answered in
// full, or as long as the window; and for windows beyond a week there are hits
// all the way back, one an hour.

func weirCounter(b *testing.B, seconds int64) textbook.Counter {
	counter, err := weir.NewCounter(time.Duration(max(seconds, week)) * time.Second)
	if err != nil {
		b.Fatal(err)
	}
	return withPast(adapter.Counter{Weir: counter}, seconds)
}

func weirKey(b *testing.B, seconds int64) textbook.Counter {
	engine := newEngine(b, weir.Config{
		Clock:     weir.EventClock,
		Retention: time.Duration(max(seconds, week)) * time.Second,
	})
	return withPast(adapter.Key{Engine: engine, Key: "hot"}, seconds)
}

func withPast(counter textbook.Counter, seconds int64) textbook.Counter {
	for at := startSecond - seconds; seconds > week && at < startSecond; at += 3_600 {
		counter.Hit(at)
	}
	return counter
}
