package rlsconfig

import (
	"strings"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy/admit"
)

// maxValuesBytes is the room for Values in a key that decisions are counted under: limit:NAME:shadow_denied:VALUES.
const maxValuesBytes = weir.MaxKeyBytes - len(admit.HitPrefix) - maxNameBytes - len(":shadow_denied:")

// CountsValues tells whether decisions are counted by values too: Values says by which.
func (l *Limit) CountsValues() bool {
	for _, s := range l.Path {
		if s.open() && !s.Share && (s.Count || l.Detailed) {
			return true
		}
	}
	return false
}

// Values is what decisions about a descriptor that has this limit are counted by, beside the limit's name:
// KEY=VALUE:KEY, written as Key does. The value is that of the descriptor where value_to_metric stands, or
// detailed_metric beside the limit; else that of the configuration, none where it has none. Values that
// count together are always the configuration's. What would be too long ends in %~ and a hash.
func (l *Limit) Values(entries []Entry) string {
	b := make([]byte, 0, 64)
	for i, s := range l.Path {
		if i > 0 {
			b = append(b, ':')
		}
		value := s.Value
		if s.open() && !s.Share && (s.Count || l.Detailed) {
			value = entries[i].Value
		}
		b = appendEntry(b, s.Key, value)
	}
	return string(shorten(b, maxValuesBytes))
}

// open tells whether more than one value fits.
func (s Step) open() bool { return s.Value == "" || strings.Contains(s.Value, "*") }
