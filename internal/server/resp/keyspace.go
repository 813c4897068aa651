package resp

import (
	"bytes"
	"strconv"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/counters"
	"github.com/weir-counter/weir/internal/service/request"
)

// This file has the commands that find and remove keys.

// deletion is the part of DEL that runs before the atomic step of its transaction: other nodes may have hits and
// limits.
type deletion struct {
	existed []bool // by key
	err     error
}

// deleteHits deletes the hits of keys on all nodes, and resets the limits that requests defined for them.
func (s *session) deleteHits(keys [][]byte) (made deletion) {
	pool := s.server.service.Pools.Admin
	if err := pool.Enter(s.caller, 1); err != nil {
		return deletion{err: err}
	}
	defer pool.Leave(s.caller, 1)
	made.existed = make([]bool, len(keys))
	for i, key := range keys {
		if request.CheckKey(ArgumentView(key)) != nil { // such a key has no hits and no limits, but may have a counter
			if made.err = s.permitCounters(keys[i : i+1]); made.err != nil {
				return made
			}
			continue
		}
		err := s.server.service.Delete(s.ctx, s.caller, string(key)) // a copy: other nodes may be asked
		if err != nil && request.As(err).Code != api.CodeUnknownKey {
			return deletion{err: err}
		}
		used, resetErr := s.server.service.ResetInline(s.ctx, s.caller, string(key))
		if resetErr != nil {
			return deletion{err: resetErr}
		}
		made.existed[i] = err == nil || used > 0
	}
	return made
}

// del is DEL. It replies with how many of the keys had hits, a counter, or use of a limit that requests defined. In a
// transaction, deleteHits has run before.
func (s *session) del(args [][]byte) error {
	deleted := s.deleted
	if deleted == nil {
		now := s.deleteHits(args[1:])
		deleted = &now
	}
	switch {
	case deleted.err != nil:
		return deleted.err
	case s.forwards():
		return s.forward(deleted.far(args)...)
	}
	n := 0
	for i, key := range args[1:] {
		if s.counters.Remove(s.millis, key) || deleted.existed[i] {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}

// scan is SCAN. It looks at no fewer keys than asked for, or at all that are left. The cursor is the next part of the
// table.
func (s *session) scan(args [][]byte) error {
	const parts = counters.ScanParts
	cursor, ok := ParseUint(args[1])
	if !ok {
		return NewReplyError("ERR", "invalid cursor")
	}
	var pattern keyPattern
	count, kind := int64(10), ""
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) == 1 {
			return ErrSyntax
		}
		var err error
		switch option, value := rest[0], rest[1]; {
		case ArgumentIs(option, "MATCH"):
			pattern, err = readKeyPattern(value)
		case ArgumentIs(option, "COUNT"):
			if count, err = ArgumentInt(value); err == nil && count < 1 {
				err = ErrSyntax
			}
		case ArgumentIs(option, "TYPE"):
			kind = string(value)
		default:
			err = ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	if err := s.permitCounters([][]byte{pattern.prefix()}); err != nil {
		return err
	}
	var keys []string
	part := int(min(cursor, parts))
	for seen := int64(0); part < parts && seen < count; part++ {
		seen += int64(s.counters.Scan(s.millis, part, func(key string, c *counters.Counter) {
			if (pattern == nil || pattern.fits(key)) && (kind == "" || kind == kindOf(c, true)) {
				keys = append(keys, key)
			}
		}))
	}
	s.out.Array(2)
	s.out.Bulk(strconv.Itoa(part % parts))
	s.out.Array(len(keys))
	for _, key := range keys {
		s.out.Bulk(key)
	}
	return nil
}

func (s *session) dbSize([][]byte) error {
	return s.number(uint64(s.server.counters.Stats().Keys), s.permitCounters([][]byte{nil})) // all keys
}

// flush is FLUSHDB. It removes the counters of this node, and keeps hits and limits.
func (s *session) flush(args [][]byte) error {
	if len(args) > 2 || len(args) == 2 && !ArgumentIs(args[1], "ASYNC") && !ArgumentIs(args[1], "SYNC") {
		return ErrSyntax
	}
	s.counters.RemoveAll(s.millis, func(string) bool { return true })
	return s.ok()
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
