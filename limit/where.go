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
)

func (w Where) String() string {
	switch w {
	case WhereShared:
		return "shared"
	case WhereNode:
		return "node"
	case WhereStrict:
		return "strict"
	}
	return fmt.Sprintf("where %d", uint8(w))
}
