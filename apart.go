package weir

import "strings"

// ApartPrefix begins the keys that are counted apart: AllKeys has none of their
// hits, nor have Stats, and Top and Keys list them only where the prefix that is
// asked for begins with it. Package policy counts its decisions under such keys,
// and a decision is no hit of anybody's.
//
// It depends on the key alone, so that all nodes, snapshots and restarts agree.
// In all else they are keys as any others: they are journaled, audited, evicted.
const ApartPrefix = "limit:"

func apart(key string) bool { return strings.HasPrefix(key, ApartPrefix) }

// lists tells whether a list of keys that begin with prefix has a key that does.
func lists(prefix, key string) bool { return !apart(key) || apart(prefix) }
