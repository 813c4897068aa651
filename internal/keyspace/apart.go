package keyspace

import "strings"

const (
	allKeys     = "*"      // weir.AllKeys
	apartPrefix = "limit:" // weir.ApartPrefix
)

// Apart tells whether a key is counted apart: allKeys has none of its hits.
func Apart(key string) bool { return strings.HasPrefix(key, apartPrefix) }

// lists tells whether a list of keys that begin with prefix has a key that does.
func lists(prefix, key string) bool { return !Apart(key) || Apart(prefix) }
