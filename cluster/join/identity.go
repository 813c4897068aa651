package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// identity is whose files a directory has. A node alone leaves no such file.
//
// It is there because the server forgives no mix-up. Started as a node of a
// cluster, it takes the streams of a node alone for orphans, and deletes them;
// started under another name, it is a new node, while the cluster waits for the
// old one in every quorum.
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
	return writeSynced(dir, identityFile, append(data, '\n'))
}

// writeSynced makes a file that is there whole or not at all.
func writeSynced(dir, name string, data []byte) error {
	file, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
