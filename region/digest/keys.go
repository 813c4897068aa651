package digest

import (
	"slices"
	"strings"

	"github.com/weir-counter/weir"
)

// Keys are prefixes of the keys that a region tells others; none: it tells all. What limits count of themselves
// (weir.SeparatePrefix) it always tells.
type Keys []string

// Tells tells whether it tells a key. The hits of all keys together (*) it does not, unless it tells all.
func (k Keys) Tells(key string) bool {
	return len(k) == 0 || strings.HasPrefix(key, weir.SeparatePrefix) || key != weir.AllKeys && k.TellsAll(key)
}

// TellsAll tells whether it tells all keys that begin so.
func (k Keys) TellsAll(prefix string) bool {
	return len(k) == 0 || slices.ContainsFunc(k, func(told string) bool { return strings.HasPrefix(prefix, told) })
}
