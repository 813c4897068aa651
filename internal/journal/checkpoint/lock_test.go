package checkpoint

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// Who may not write in the directory gets an error that says who has to. (A test of root can't be refused.)
func TestWordsOfPermission(t *testing.T) {
	t.Parallel()
	err := cannotUse(&fs.PathError{Op: "mkdir", Path: "/var/lib/weir", Err: syscall.EACCES})
	if !strings.Contains(err.Error(), "must be able to write there: chown it, or choose another --data") {
		t.Error(err)
	}
}
