package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
)

// manifest says what a data directory is. It is a line of JSON and a line with
// that line's CRC-32C, so that a person can read it and a changed bit is found.
type manifest struct {
	Format     int    `json:"format"`            // 1
	Journal    uint64 `json:"journal,omitempty"` // its identity; 0: not known yet
	Origin     uint64 `json:"origin"`            // of all batches of this directory; random
	Epoch      uint64 `json:"epoch"`             // of the process that wrote this; counts up
	Partitions int    `json:"partitions"`
	RetentionS int64  `json:"retention_s"`
	Created    string `json:"created"`
}

const manifestFormat = 1

// loadManifest reads the manifest; found is false in a new directory.
func loadManifest(dir string) (m manifest, found bool, err error) {
	path := filepath.Join(dir, manifestFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, false, nil
	}
	if err != nil {
		return manifest{}, false, err
	}
	line, sum, _ := bytes.Cut(data, []byte("\n"))
	if string(sum) != sumLine(line) {
		return manifest{}, true, fmt.Errorf("%s: %w", path, errDamaged)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return manifest{}, true, fmt.Errorf("%s: %w: %w", path, errDamaged, err)
	}
	if m.Format != manifestFormat {
		return manifest{}, true, fmt.Errorf("%s: format %d: this build reads format %d", path, m.Format, manifestFormat)
	}
	return m, true, nil
}

func (m manifest) save(dir string) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFileSynced(filepath.Join(dir, manifestFile), fmt.Appendf(nil, "%s\n%s", line, sumLine(line)))
}

// sumLine is the second line: the checksum of the first, with its end.
func sumLine(line []byte) string {
	return fmt.Sprintf("crc32c %08x\n", wire.AddSum(wire.Sum(line), []byte("\n")))
}

func newManifest(cfg weir.Config) manifest {
	return manifest{
		Format:     manifestFormat,
		Origin:     rand.Uint64(),
		Partitions: cfg.Partitions,
		RetentionS: int64(cfg.Retention / time.Second),
		Created:    time.Now().UTC().Format(time.RFC3339),
	}
}

// fits refuses an engine that the directory was not made for, with a *weir.Error
// that names the field. A node alone changes its directory instead (carry.go).
func (m manifest) fits(cfg weir.Config) error {
	const how = "they change at a restart of a node alone, not in a cluster: see \"Other settings\" in docs/cluster-operations.md"
	if m.Partitions != cfg.Partitions {
		return invalidConfig("Partitions", "the data directory has %d partitions, not %d: %s", m.Partitions, cfg.Partitions, how)
	}
	if was := time.Duration(m.RetentionS) * time.Second; was != cfg.Retention {
		return invalidConfig("Retention", "the data directory was made with a retention of %v, not %v: %s", was, cfg.Retention, how)
	}
	return nil
}

// Metadata of the streams: what all nodes that share them must agree on.
const (
	metaPartitions = "weir-partitions"
	metaRetention  = "weir-retention-s"
)

func (m manifest) streamMetadata() map[string]string {
	meta := map[string]string{metaPartitions: strconv.Itoa(m.Partitions), metaRetention: strconv.FormatInt(m.RetentionS, 10)}
	if m.Journal != 0 {
		meta[metaJournal] = journalText(m.Journal)
	}
	return meta
}

// fitsStream refuses streams that were made for another engine.
func (m manifest) fitsStream(have map[string]string) error {
	for name, want := range m.streamMetadata() {
		if was := have[name]; name != metaJournal && was != "" && was != want {
			return fmt.Errorf("it was made with %s %s, not %s: all nodes of a cluster use the same", strings.TrimPrefix(name, "weir-"), was, want)
		}
	}
	return nil
}
