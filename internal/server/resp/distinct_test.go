package resp

import "testing"

// PFADD, PFCOUNT and PFMERGE count as Redis does while ids are few, and in windows.
func TestDistinct(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	s.dial().says(`
		PFADD a x y z -> 1
		PFADD a x y z -> 0
		PFADD a x w -> 1
		PFADD a -> 0
		PFCOUNT a -> 4
		PFCOUNT nobody -> 0
		PFADD b w v -> 1
		PFCOUNT a b -> 5
		PFCOUNT a b nobody WINDOW 5m -> 5
		PFMERGE c a b nobody -> OK
		PFCOUNT c -> 5
		PFMERGE c c -> OK
		PFADD c z u -> 1
		PFCOUNT c window 5m -> 6
		PFCOUNT a -> 4
		COUNT a 5m -> [8 8 8 1 1769860800000]
		COUNT c 5m -> [2 2 2 1 1769860800000]
		EXISTS a c nobody -> 2
		TYPE c -> string
		TYPE nobody -> none
		PFMERGE d a -> OK
		EXISTS d -> 1
		DEL d d -> 1
		EXISTS d -> 0
		DEL c -> 1
		PFCOUNT c -> 0
		PFMERGE empty nobody -> OK
		PFCOUNT empty WINDOW 5x -> -ERR invalid_window: "5x" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds
		PFCOUNT empty WINDOW 0 -> -ERR invalid_window: a window of 0: must be at least 1s; without WINDOW, all ids that are kept count
		PFADD * x -> -ERR reserved_key: key * is reserved: it counts all hits by itself
		MULTI -> OK
		PFCOUNT a -> -ERR PFCOUNT may wait for other nodes, and no transaction may: send it outside of MULTI
		DISCARD -> OK
	`)
}
