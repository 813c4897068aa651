package policy

import (
	"fmt"

	"github.com/weir-counter/weir/limit"
)

// Away says what becomes of the requests of a strict limit while the node that decides
// does not answer.
type Away uint8

const (
	// AwayClosed denies, for a second.
	AwayClosed Away = iota

	// AwayOpen admits, and counts nothing.
	AwayOpen

	// AwayShare decides here: by all admissions that are known here, and at most this
	// node's share of the burst, rounded down, but at least 1.
	AwayShare

	// AwayOwn decides here, by what this node itself has admitted. No policy says it: it
	// is what becomes of shared limits while no node that holds the key answers.
	AwayOwn
)

// wheres and aways are the words of the file, in the order of their constants.
// AwayOwn is no word of it.
var (
	wheres = []string{limit.WhereShared.String(), limit.WhereNode.String(), limit.WhereStrict.String(), limit.WhereLeased.String()}
	aways  = []string{"closed", "open", "share"}
)

func (a Away) String() string {
	switch {
	case int(a) < len(aways):
		return aways[a]
	case a == AwayOwn:
		return "own"
	}
	return fmt.Sprintf("away %d", uint8(a))
}
