package resp

import (
	"bytes"
	"hash/maphash"
)

// scanParts is the number of parts of a shard for Scan, so that a reply has about 1/1000 of all keys at most.
const scanParts = 16

// Scan calls f for the keys of one of the shardCount*scanParts parts, and returns their number. All parts together have
// all keys. A key that exists all the time is seen exactly once.
func (v *CounterView) Scan(now int64, part int, f func(key string, c *Counter)) (n int) {
	t := v.table
	s := &t.shards[part/scanParts]
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.keys {
		if maphash.String(t.seed, key)/shardCount%scanParts == uint64(part%scanParts) && !c.expired(now) {
			n++
			f(key, c)
		}
	}
	return n
}

// RemoveAll removes the counters whose keys fit, and returns their number. It locks one shard at a time, so it is no
// atomic step, unless the caller holds all shards.
func (v *CounterView) RemoveAll(now int64, fit func(key string) bool) (n int) {
	for i := range v.table.shards {
		s := &v.table.shards[i]
		locked := v.held&(1<<i) == 0
		if locked {
			s.mu.Lock()
		}
		for key, c := range s.keys {
			if fit(key) {
				if !c.expired(now) {
					n++
				}
				v.table.remove(s, key)
			}
		}
		s.unlock(locked)
	}
	return n
}

// keyPattern is a pattern of keys with the syntax of Redis. A * matches any bytes and ? matches one byte. [a-c] matches
// one byte of a set and [^a] one byte outside of it. A \ escapes the next byte.
type keyPattern []byte

// maxKeyPattern bounds the time to match one key.
const maxKeyPattern = 512

func readKeyPattern(arg []byte) (keyPattern, error) {
	if len(arg) > maxKeyPattern {
		return nil, NewReplyError("ERR", "a pattern of keys has at most 512 bytes")
	}
	return keyPattern(arg), nil
}

// prefix returns the bytes with which all matching keys begin.
func (p keyPattern) prefix() []byte {
	if i := bytes.IndexAny(p, `*?[\`); i >= 0 {
		return p[:i]
	}
	return p
}

// fits reports whether a key matches.
func (p keyPattern) fits(key string) bool {
	star, at := -1, 0 // the last *, and where the key goes on after it
	i, k := 0, 0
	for k < len(key) {
		if i < len(p) && p[i] == '*' {
			star, at = i, k
			i++
			continue
		}
		if n, ok := p.one(i, key[k]); ok {
			i, k = i+n, k+1
			continue
		}
		if star < 0 {
			return false
		}
		at++
		i, k = star+1, at
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// one reports whether a byte matches the pattern at i, and returns how many bytes of the pattern that used.
func (p keyPattern) one(i int, b byte) (n int, ok bool) {
	switch {
	case i >= len(p):
		return 0, false
	case p[i] == '?':
		return 1, true
	case p[i] == '\\' && i+1 < len(p):
		return 2, p[i+1] == b
	case p[i] != '[':
		return 1, p[i] == b
	}
	j, not := i+1, false
	if j < len(p) && p[j] == '^' {
		j, not = j+1, true
	}
	for ; j < len(p) && p[j] != ']'; j++ {
		switch {
		case p[j] == '\\' && j+1 < len(p):
			j++
			ok = ok || p[j] == b
		case j+2 < len(p) && p[j+1] == '-':
			low, high := min(p[j], p[j+2]), max(p[j], p[j+2])
			ok = ok || low <= b && b <= high
			j += 2
		default:
			ok = ok || p[j] == b
		}
	}
	return min(j+1, len(p)) - i, ok != not
}
