package admission

import (
	"fmt"
	"strings"
)

// maxNameBytes is the longest name of a limit, or a node, in bytes.
const maxNameBytes = 64

const nameOthers = "._/-"

// NodeMark stands between the name of a limit that is one node's alone and the name
// of the node. No name that is given to Limit has it.
const NodeMark = '@'

// isName is whether s is 1 to maxNameBytes letters, digits or any of others.
func isName(s, others string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxNameBytes
}

// IsLimitName is whether a name may be a limit's.
func IsLimitName(name string) bool { return isName(name, nameOthers) }

// IsNodeName is whether a name may be a node's.
func IsNodeName(name string) bool { return isName(name, "._-") }

// OfNode is the name by which states of a limit are kept that is one node's alone.
func OfNode(name, node string) string { return name + string(NodeMark) + node }

// checkKept is isLimitName for the names that states are kept by.
func checkKept(kept string) error {
	name, node, marked := strings.Cut(kept, string(NodeMark))
	node = strings.TrimPrefix(node, string(NodeMark)) // an outName
	switch {
	case marked && !IsNodeName(node):
		return fmt.Errorf("%.80q is no node", node)
	case !IsLimitName(name):
		return fmt.Errorf("the name %.80q of a limit: must be 1 to %d letters, digits or any of %s", name, maxNameBytes, nameOthers)
	}
	return nil
}
