// Package traffic makes the hits that the benchmarks count: the same ones in
// every run, from fixed seeds.
package traffic

import (
	"fmt"
	"math/rand/v2"
)

const seed = 20260101

// Keys returns n different keys in random order.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%07d", i)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// Picks returns n indexes below the number of keys, Zipf-distributed with
// exponent 1.1: the most popular key has about a seventh of them.
func Picks(n, keys int) []uint32 {
	r := rand.New(rand.NewPCG(seed, 2))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(keys-1))
	picks := make([]uint32, n)
	for i := range picks {
		picks[i] = uint32(zipf.Uint64())
	}
	return picks
}
