package keyspace

// Stats are a keyspace's figures. Hits are weighted by their n.
type Stats struct {
	Keys, HotKeys            int
	EvictedKeys, EvictedHits uint64
	ExpiredKeys              uint64
	Bytes                    int64 // of tables, keys and windows
	Waiting                  int64 // deltas and filled live cells that wait for a cut
	WaitingBytes             int64 // what they take in batches, at most, and keys of the last cut if they are hit again
}

// Stats returns the figures; each is exact, but they are not taken at one instant.
func (k *Keyspace) Stats() Stats {
	return Stats{
		Keys:         int(k.keys.Load()),
		HotKeys:      int(k.hot.count.Load()),
		EvictedKeys:  k.departed.evictedKeys.Load(),
		EvictedHits:  k.departed.evictedHits.Load(),
		ExpiredKeys:  k.departed.expiredKeys.Load(),
		Bytes:        k.bytes.Load(),
		Waiting:      k.waiting.entries.Load(),
		WaitingBytes: k.waiting.bytes.Load(),
	}
}
