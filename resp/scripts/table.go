package scripts

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weir-counter/weir/resp/argument"
)

// Table finds scripts by the SHA-1 of their texts. It does not change.
type Table struct {
	bySHA map[[sha1.Size]byte]*Script
	names string // of the libraries, for errors
}

// NewTable returns that of all scripts that are known.
func NewTable() Table {
	t := Table{bySHA: map[[sha1.Size]byte]*Script{}}
	var libraries []string
	for _, one := range all() {
		sha, ok := readSHA([]byte(one.SHA))
		if !ok {
			panic("scripts: the SHA-1 of a script: " + one.SHA)
		}
		t.bySHA[sha] = one
		if !slices.Contains(libraries, one.library) {
			libraries = append(libraries, one.library)
		}
	}
	t.names = strings.Join(libraries, ", ")
	return t
}

// BySHA returns the script of a SHA-1 as EVALSHA has it, or nil.
func (t *Table) BySHA(digits []byte) *Script {
	sha, ok := readSHA(digits)
	if !ok {
		return nil
	}
	return t.bySHA[sha]
}

// ByText returns the script of a text, or why there is none.
func (t *Table) ByText(text []byte) (*Script, error) {
	sha := sha1.Sum(text)
	if known := t.bySHA[sha]; known != nil {
		return known, nil
	}
	return nil, argument.Fail("ERR", "Weir runs no Lua. It knows the scripts of "+t.names+", and does what they do; the text with the SHA-1 "+
		hex.EncodeToString(sha[:])+" is none of them. Use the commands ALLOW, CL.THROTTLE or INCREX in its place; docs/resp.md lists versions")
}

func readSHA(digits []byte) (sha [sha1.Size]byte, ok bool) {
	if len(digits) != hex.EncodedLen(len(sha)) {
		return sha, false
	}
	_, err := hex.Decode(sha[:], digits)
	return sha, err == nil
}
