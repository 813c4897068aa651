package limit

import "fmt"

// Where says which nodes of a cluster count a limit together, and who decides.
type Where uint8

const (
	// WhereShared counts the admissions of all nodes. Each that holds the key's
	// partition decides at once, by what it knows; what others admit meanwhile it
	// learns later.
	WhereShared Where = iota

	// WhereNode counts those of one node alone.
	WhereNode

	// WhereStrict counts those of all nodes, of which one decides for each key.
	WhereStrict

	// WhereLeased counts those of all nodes. One decides for each key, and lends parts of its limit to
	// the others, which decide by themselves within these.
	WhereLeased
)

// ByOne tells whether one node decides for each key, and so may be away.
func (w Where) ByOne() bool { return w == WhereStrict || w == WhereLeased }

func (w Where) String() string {
	switch w {
	case WhereShared:
		return "shared"
	case WhereNode:
		return "node"
	case WhereStrict:
		return "strict"
	case WhereLeased:
		return "leased"
	}
	return fmt.Sprintf("where %d", uint8(w))
}
