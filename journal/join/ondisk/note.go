package ondisk

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// noteFile says by which group of replicas each stream is replicated, which the
// folders' names do not.
const noteFile = "groups.json"

// Note notes the groups of streams, by the streams' names, for Check.
func Note(dir string, groups map[string]string) error {
	data, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, noteFile)
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, data) {
		return nil
	}
	return errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path))
}

// readNote returns no groups if nothing was noted.
func readNote(dir string) (groups map[string]string, err error) {
	data, err := os.ReadFile(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return groups, json.Unmarshal(data, &groups)
}
