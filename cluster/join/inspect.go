package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weir-counter/weir/cluster/join/ondisk"
)

// Inspect reads the files of an embedded server that does not run, and changes
// none. node is "" if they are not of a cluster's node; nothing is checked then, as
// a server alone does not lose anything to others. unbroken is Config.Unbroken.
func Inspect(dir, unbroken string) (node string, damaged []ondisk.Damage, err error) {
	is, err := readIdentity(dir)
	if err != nil || is.Node == "" {
		return "", nil, err
	}
	damaged, err = ondisk.Check(dir, unbroken)
	return is.Node, damaged, err
}

// Alone makes the files of a cluster's node, or rather a copy of them, those of a
// node alone, for a server that only reads them.
func Alone(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, identityFile)), ondisk.Alone(dir))
}

// readIdentity returns the zero identity for a directory without one.
func readIdentity(dir string) (is identity, err error) {
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return is, nil
	}
	if err != nil {
		return is, err
	}
	if err := json.Unmarshal(data, &is); err != nil || is.Node == "" {
		return is, fmt.Errorf("%s is damaged: it should name the cluster and the node: restore it, or, with the other nodes up, start this one with an empty --data", path)
	}
	return is, nil
}
