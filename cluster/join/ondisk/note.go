package ondisk

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// note says what files are to be checked by.
type note struct {
	Server string            `json:"server"` // that wrote them: another version may write them in another way
	Groups map[string]string `json:"groups"` // by stream: its group of replicas, which the folders' names do not tell
}

const noteFile = "groups.json"

// Note notes the groups of the streams that this node keeps, by the streams' names, for
// Check. It is on disk when Note returns.
func Note(dir string, groups map[string]string) error {
	data, err := json.Marshal(note{natsserver.VERSION, groups})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, noteFile)
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, data) {
		return nil
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readNote returns no groups if nothing was noted, by this version of the server, that
// can be read: then there is nothing to check by.
func readNote(dir string) map[string]string {
	var is note
	data, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err != nil || json.Unmarshal(data, &is) != nil || is.Server != natsserver.VERSION {
		return nil
	}
	return is.Groups
}
