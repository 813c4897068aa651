package admission

import (
	"math/rand/v2"
	"testing"
)

// Against a map of who holds until when.
func TestKeyAgainstMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var k PermitKey
		model := map[uint64]int64{}
		now, most := int64(1), 1+random.IntN(6)
		for range 2000 {
			now += random.Int64N(5)
			for id, until := range model {
				if until <= now {
					delete(model, id)
				}
			}
			if random.IntN(100) == 0 {
				most = 1 + random.IntN(6)
			}
			id, ttl := random.Uint64N(12), 1+random.Int64N(20)
			_, held := model[id]
			var got, want bool
			switch random.IntN(4) {
			case 0:
				if held { // IDs are new
					continue
				}
				got, want = k.Take(now, id, most, ttl), len(model) < most
				if want {
					model[id] = now + ttl
				}
			case 1:
				got, want = k.Renew(now, id, ttl), held
				if held {
					model[id] = max(model[id], now+ttl)
				}
			case 2:
				got, want = k.Renew(now, id, ttl) || k.Take(now, id, most, ttl), held || len(model) < most
				if want {
					model[id] = max(model[id], now+ttl)
				}
			case 3:
				got, want = k.Release(now, id), held
				delete(model, id)
			}
			next := int64(0)
			for _, until := range model {
				if next == 0 || until < next {
					next = until
				}
			}
			if got != want || k.Held(now) != len(model) || k.Next() != next {
				t.Fatalf("seed %d: %v, %d held, next %d; want %v, %d, %d", seed, got, k.Held(now), k.Next(), want, len(model), next)
			}
		}
	}
}
