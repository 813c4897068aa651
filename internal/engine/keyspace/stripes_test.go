package keyspace

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// The ways to pick a stripe, alone (type Stripes).
func BenchmarkStripePick(b *testing.B) {
	s := NewStripes()
	b.Run("stack address", func(b *testing.B) {
		for b.Loop() {
			s.Mine()
		}
	})
	b.Run("sync.Pool token", func(b *testing.B) {
		pool := sync.Pool{New: func() any { return new(uint64) }}
		for b.Loop() {
			token := pool.Get().(*uint64)
			_ = &s.cells[*token&1]
			pool.Put(token)
		}
	})
	b.Run("random number", func(b *testing.B) {
		for b.Loop() {
			_ = &s.cells[rand.Uint64()>>s.shift]
		}
	})
}

// Goroutines that meet on a stripe are dealt new ones: each pick is in range
// whatever the salt.
func TestStripePickStaysInRange(t *testing.T) {
	s := NewStripes()
	for range 10_000 {
		s.Mine()
		s.salt.Add(1)
	}
}
