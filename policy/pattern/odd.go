package pattern

import (
	"slices"
	"strings"
)

// addressNames are what captures of addresses are called, and how keys with one begin.
var addressNames = []string{"ip", "ipv6", "addr", "address", "host", "client_ip", "remote_addr", "remote_ip"}

// CutsAddress is the name of a capture that seems to be of an address and can't hold one
// of IPv6, or "".
func (p *Pattern) CutsAddress() string {
	for i, w := range p.wild {
		word, _ := strings.CutSuffix(p.literals[i], ":")
		word = word[strings.LastIndexAny(word, separators)+1:]
		if !w.any && (slices.Contains(addressNames, w.name) || slices.Contains(addressNames, word)) {
			return w.name
		}
	}
	return ""
}

// TakesAll tells whether p is for all keys that begin with its Prefix.
func (p *Pattern) TakesAll() bool {
	return len(p.wild) == 1 && p.wild[0].any && p.literals[1] == "" // PREFIX*
}

// Loose is p whose `{name}` take any text, as `{name*}` do.
func (p *Pattern) Loose() Pattern {
	loose := Pattern{p.literals, slices.Clone(p.wild)}
	for i := range loose.wild {
		loose.wild[i].any = true
	}
	return loose
}
