// Package weir: stub while the engine is written.
package weir

import (
	"time"

	"github.com/weir-counter/weir/window"
)

const (
	MaxKeyBytes = 512
	MaxPoints   = 10_000
	AllKeys     = "*"
)

type (
	Outcome = window.Outcome
	Count   = window.Count
	Clock   uint8
)

const (
	WallClock Clock = iota
	EventClock
)

type Config struct {
	Partitions int
	Retention  time.Duration
	Memory     int64
	Clock      Clock
	MaxAhead   time.Duration
	Now        func() time.Time
}
type Engine struct{}
type Point struct {
	At time.Time
	Count
}
type KeyCount struct {
	Key string
	Count
}
type Stats struct {
	Hits, Late, TooLate, TooFarAhead      uint64
	Keys, HotKeys                         int
	EvictedKeys, EvictedHits, ExpiredKeys uint64
	Bytes, MemoryBudget                   int64
	Partitions                            int
	Newest                                time.Time
}

func New(Config) (*Engine, error)    { panic("stub") }
func (*Engine) Close() error         { panic("stub") }
func (*Engine) Now() time.Time       { panic("stub") }
func (*Engine) Hit(key string) error { panic("stub") }
func (*Engine) HitN(key string, n uint64) error {
	panic("stub")
}
func (*Engine) HitAt(at time.Time, key string, n uint64) (Outcome, error) { panic("stub") }
func (*Engine) Count(key string, w time.Duration) (Count, error)          { panic("stub") }
func (*Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	panic("stub")
}
func (*Engine) Rate(key string, w time.Duration) (float64, error) { panic("stub") }
func (*Engine) RateAt(at time.Time, key string, w time.Duration) (float64, error) {
	panic("stub")
}
func (*Engine) Series(key string, from, to time.Time, step time.Duration) ([]Point, error) {
	panic("stub")
}
func (*Engine) Top(at time.Time, w time.Duration, n int, prefix string) ([]KeyCount, error) {
	panic("stub")
}
func (*Engine) Keys(prefix, after string, limit int) ([]string, error) { panic("stub") }
func (*Engine) Delete(key string) (bool, error)                        { panic("stub") }
func (*Engine) Stats() Stats                                           { panic("stub") }

type Counter struct{}

func NewCounter() *Counter     { panic("stub") }
func (*Counter) Hit()          { panic("stub") }
func (*Counter) HitN(n uint64) { panic("stub") }
func (*Counter) HitAt(at time.Time, n uint64) (Outcome, error) {
	panic("stub")
}
func (*Counter) Count(w time.Duration) (Count, error) { panic("stub") }
func (*Counter) CountAt(at time.Time, w time.Duration) (Count, error) {
	panic("stub")
}
func (*Counter) Load(w time.Duration) (uint64, error) { panic("stub") }
func (*Counter) QPS(w time.Duration) (float64, error) { panic("stub") }
