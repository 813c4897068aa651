package keyspace

import "strings"

const (
	allKeys        = "*"      // weir.AllKeys
	separatePrefix = "limit:" // weir.SeparatePrefix
)

// Separate tells whether a key is counted separately: allKeys has none of its hits.
func Separate(key string) bool { return strings.HasPrefix(key, separatePrefix) }

// lists tells whether a list of keys that begin with prefix has a key that does.
func lists(prefix, key string) bool { return !Separate(key) || Separate(prefix) }
