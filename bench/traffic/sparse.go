package traffic

import "strconv"

// Sparse keys have SparseKeyBytes bytes, and SparseHits hits spread over a day.
const (
	SparseKeyBytes = 20
	SparseHits     = 10
)

// AppendSparseKey appends key number i, below 10^15, to b.
func AppendSparseKey(b []byte, i int) []byte {
	const zeros = "user:000000000000000"
	start := len(b)
	b = append(b, zeros...)
	digits := strconv.AppendInt(make([]byte, 0, 20), int64(i), 10)
	copy(b[start+SparseKeyBytes-len(digits):], digits)
	return b
}

// SparseHit returns the key that comes j-th in a round of hits, and the second of the day. In each round, hit from 0 to
// SparseHits-1, each of the keys has one hit. Time increases with hit and j. Each round has another order, so the time
// between two hits of a key is up to five hours.
func SparseHit(keys, hit, j int) (key int, second int64) {
	// A prime larger than the number of keys makes a permutation of them.
	primes := [SparseHits]int{
		2_654_435_761, 2_246_822_519, 3_266_489_917, 1_000_000_007, 4_294_967_291,
		1_000_000_009, 1_999_999_973, 2_147_483_647, 3_221_225_473, 2_147_483_629,
	}
	const share = Day / SparseHits
	return j * primes[hit] % keys, int64(hit*share + j*share/keys)
}
