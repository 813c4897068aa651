package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
)

// Manifest says what a data directory is. It is a line of JSON and a line with
// that line's CRC-32C, so that a person can read it and a changed bit is found.
type Manifest struct {
	Format     int    `json:"format"`            // 1
	Journal    uint64 `json:"journal,omitempty"` // its identity; 0: not known yet
	Origin     uint64 `json:"origin"`            // of all batches of this directory; random
	Epoch      uint64 `json:"epoch"`             // of the process that wrote this; counts up
	Partitions int    `json:"partitions"`
	RetentionS int64  `json:"retention_s"`
	Created    string `json:"created"`

	ClockSet record.ClockSets `json:"clock_set,omitempty"` // while the directory was in use
}

// ManifestFormat is the version that this build reads and writes.
const ManifestFormat = 1

// LoadManifest reads the manifest; found is false in a new directory.
func LoadManifest(dir string) (m Manifest, found bool, err error) {
	path := filepath.Join(dir, ManifestFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, false, nil
	}
	if err != nil {
		return Manifest{}, false, err
	}
	line, sum, _ := bytes.Cut(data, []byte("\n"))
	if string(sum) != sumLine(line) {
		return Manifest{}, true, fmt.Errorf("%s: %w", path, record.ErrDamaged)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return Manifest{}, true, fmt.Errorf("%s: %w: %w", path, record.ErrDamaged, err)
	}
	if m.Format != ManifestFormat {
		return Manifest{}, true, fmt.Errorf("%s: format %d: this build reads format %d", path, m.Format, ManifestFormat)
	}
	return m, true, nil
}

// Save replaces the manifest of a directory, and returns once it is on disk.
func (m Manifest) Save(dir string) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFileSynced(filepath.Join(dir, ManifestFile), fmt.Appendf(nil, "%s\n%s", line, sumLine(line)))
}

// sumLine is the second line: the checksum of the first, with its end.
func sumLine(line []byte) string {
	return fmt.Sprintf("crc32c %08x\n", wire.AddSum(wire.Sum(line), []byte("\n")))
}

// NewManifest is that of a new directory for an engine: a random origin, in epoch 0.
func NewManifest(cfg weir.Config) Manifest {
	return Manifest{
		Format:     ManifestFormat,
		Origin:     rand.Uint64(),
		Partitions: cfg.Partitions,
		RetentionS: int64(cfg.Retention / time.Second),
		Created:    time.Now().UTC().Format(time.RFC3339),
	}
}

// Fits refuses an engine that the directory was not made for, with a *weir.Error
// that names the field. A node alone changes its directory instead (package offline).
func (m Manifest) Fits(cfg weir.Config) error {
	const how = "they change at a restart of a node alone, not in a cluster: see \"Other settings\" in docs/cluster-operations.md"
	if m.Partitions != cfg.Partitions {
		return misfit("Partitions", "the data directory has %d partitions, not %d: %s", m.Partitions, cfg.Partitions, how)
	}
	if was := time.Duration(m.RetentionS) * time.Second; was != cfg.Retention {
		return misfit("Retention", "the data directory was made with a retention of %v, not %v: %s", was, cfg.Retention, how)
	}
	return nil
}

func misfit(field, format string, args ...any) error {
	return &weir.Error{Code: weir.CodeInvalidConfig, Field: field, Message: fmt.Sprintf(format, args...)}
}
