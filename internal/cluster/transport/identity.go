package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weir-counter/weir/internal/journal/checkpoint"
)

// identity says whose files a directory has. A node alone leaves no such file.
//
// It exists because the server does not detect a mix-up. Started as a node of a cluster, a server takes the streams of
// a node alone for orphans, and deletes them. Started under another name it is a new node, while the cluster still
// counts the old one in every quorum.
type identity struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

const (
	identityFile = "node.json"
	storeFolder  = "jetstream" // that the server makes in its directory
)

// claim refuses a directory that is another's, and marks a new one.
func claim(dir string, want identity) error {
	is, err := readIdentity(dir)
	switch {
	case err != nil:
		return err
	case is == (identity{}):
		return claimUnmarked(dir, want)
	}
	if is != want {
		return fmt.Errorf("%s belongs to node %s of cluster %s: start it with --cluster %[3]s --node %[2]s, or name another --data", dir, is.Node, is.Cluster)
	}
	return nil
}

func claimUnmarked(dir string, want identity) error {
	if want == (identity{}) {
		return nil
	}
	switch _, err := os.Stat(filepath.Join(dir, storeFolder)); {
	case err == nil:
		return fmt.Errorf("%s was filled by a node alone, or lost its %s; joining a cluster would delete it: name another --data, empty if this is a node of the cluster", dir, identityFile)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return checkpoint.WriteFileSynced(filepath.Join(dir, identityFile), append(data, '\n'))
}

// Inspect reads the files of an embedded server that does not run, and changes none. If they are not a cluster node's
// files, node is "" and nothing is checked: a server alone does not make others lose anything. unbroken is
// Config.Unbroken.
func Inspect(dir, unbroken string) (node string, damaged []Damage, err error) {
	is, err := readIdentity(dir)
	if err != nil || is.Node == "" {
		return "", nil, err
	}
	damaged, err = CheckDisk(dir, unbroken)
	return is.Node, damaged, err
}

// Alone turns the files of a cluster's node, or better a copy of them, into files of a node alone, for a server that
// only reads them.
func Alone(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, identityFile)), DiskAlone(dir))
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
