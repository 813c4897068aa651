package pattern

import (
	"slices"
	"strings"
)

// Index finds the policies that may be for a key by the literal text that their
// patterns begin with, so that a thousand policies with a beginning of their own
// each cost a request one binary search.
//
// prefixes are sorted. Those that a key begins with are a chain, each a prefix of
// the next; the longest is the key's place in the order or an ancestor of it:
// whatever sorts between a prefix of the key and the key begins with that prefix too.
//
// Each entry lists the policies of its whole chain, ready in the order of application:
// at most MaxPolicies each, 4 MB in the worst of all files.
type Index struct {
	prefixes []string
	parents  []int32   // the longest other prefix that this one begins with; -1: none
	policies [][]int32 // that may be for a key that begins with the prefix
}

func NewIndex(patterns []Pattern) Index {
	var x Index
	for i := range patterns {
		x.prefixes = append(x.prefixes, patterns[i].Prefix())
	}
	slices.Sort(x.prefixes)
	x.prefixes = slices.Compact(x.prefixes)
	x.parents = make([]int32, len(x.prefixes))
	x.policies = make([][]int32, len(x.prefixes))
	for i := range patterns {
		at, _ := slices.BinarySearch(x.prefixes, patterns[i].Prefix())
		x.policies[at] = append(x.policies[at], int32(i))
	}
	for at, prefix := range x.prefixes {
		parent := x.longest(int32(at)-1, prefix)
		x.parents[at] = parent
		if parent >= 0 { // it comes earlier, so its list is whole
			x.policies[at] = append(x.policies[at], x.policies[parent]...)
			slices.Sort(x.policies[at])
		}
	}
	return x
}

// Candidates lists, in order of application, the policies that may be for key.
//
// Cost: O(log(policies) + the longest chain of prefixes); no allocation.
func (x *Index) Candidates(key string) []int32 {
	at, found := slices.BinarySearch(x.prefixes, key)
	if !found {
		at--
	}
	if at := x.longest(int32(at), key); at >= 0 {
		return x.policies[at]
	}
	return nil
}

// longest is the entry of the chain from at on that key begins with, or -1.
func (x *Index) longest(at int32, key string) int32 {
	for at >= 0 && !strings.HasPrefix(key, x.prefixes[at]) {
		at = x.parents[at]
	}
	return at
}
