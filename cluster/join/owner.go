package join

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Owner says whose the files in an embedded server's directory are: of a node of a
// cluster, or with the empty names of a node alone. filled is false where there are none.
func Owner(dir string) (cluster, node string, filled bool, err error) {
	is, err := readIdentity(dir)
	if err != nil {
		return "", "", false, err
	}
	_, err = os.Stat(filepath.Join(dir, storeFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return is.Cluster, is.Node, is.Node != "", nil
	}
	return is.Cluster, is.Node, err == nil, err
}
