package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/files"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// Manifest says what a data directory is. It is a line of JSON, which a person can read, and a line with the CRC-32C of the first. After a
// crash it is the old one or the new one. An epoch is in it before the first batch of the epoch.
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
	return files.WriteFileSynced(filepath.Join(dir, ManifestFile), fmt.Appendf(nil, "%s\n%s", line, sumLine(line)))
}

// sumLine is the second line: the checksum of the first, with its end.
func sumLine(line []byte) string {
	return fmt.Sprintf("crc32c %08x\n", wire.AddSum(wire.Sum(line), []byte("\n")))
}

// NewManifest returns the manifest of a new directory for an engine: a random origin, in epoch 0.
func NewManifest(cfg engine.Config) Manifest {
	return Manifest{
		Format:     ManifestFormat,
		Origin:     rand.Uint64(),
		Partitions: cfg.Partitions,
		RetentionS: int64(cfg.Retention / time.Second),
		Created:    time.Now().UTC().Format(time.RFC3339),
	}
}

// Fits refuses an engine that the directory was not made for, with a *engine.Error
// that names the field. A node alone changes its directory instead (package offline).
func (m Manifest) Fits(cfg engine.Config) error {
	const advice = "they change at a restart of a single node, not in a cluster: see \"Other settings\" in docs/cluster-operations.md"
	if m.Partitions != cfg.Partitions {
		return misfit("Partitions", "the data directory has %d partitions, not %d: %s", m.Partitions, cfg.Partitions, advice)
	}
	if was := time.Duration(m.RetentionS) * time.Second; was != cfg.Retention {
		return misfit("Retention", "the data directory was made with a retention of %v, not %v: %s", was, cfg.Retention, advice)
	}
	return nil
}

func misfit(field, format string, args ...any) error {
	return &engine.Error{Code: api.CodeInvalidConfig, Field: field, Message: fmt.Sprintf(format, args...)}
}

// RestoreStage is the folder in which a data directory grows until it is whole.
const RestoreStage = "restoring"

// RefuseForeignFiles keeps Weir out of a directory that holds something else.
func RefuseForeignFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := refuseRestoring(dir, entries); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != LockFile && entry.Name() != ManifestFile+".new" {
			return fmt.Errorf("data directory %s has no manifest, but holds %s: it is damaged, or not Weir's: choose an empty --data",
				dir, filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}

// Unstage moves a whole data directory into place, its manifest last: without it
// a directory is refused.
func Unstage(stage, dir string) error {
	for _, name := range []string{ServerDir, WatermarkFile, ManifestFile} {
		if err := os.Rename(filepath.Join(stage, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return files.SyncDirectory(dir)
}

// DiscardDirectory takes back what a restore that failed has put into dir.
func DiscardDirectory(dir string, isNew bool) error {
	var errs []error
	for _, name := range append(historyFiles(), ManifestFile, WatermarkFile, ServerDir, LockFile) {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	if isNew {
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}

// RefuseFilled refuses a directory that holds anything but our lock and what a restore
// that was killed has left.
func RefuseFilled(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, ManifestFile)); err == nil {
		return fmt.Errorf("%s is a data directory already: choose one that is empty, or not there yet", dir)
	}
	restoring := slices.ContainsFunc(entries, isStage)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == LockFile, name == RestoreStage:
		case restoring && (name == ServerDir || name == WatermarkFile): // it was killed as it moved them there
		case restoring && slices.Contains(historyFiles(), name):
		default:
			return fmt.Errorf("%s holds %s: choose a directory that is empty, or not there yet", dir, name)
		}
	}
	return nil
}

func isStage(entry fs.DirEntry) bool { return entry.Name() == RestoreStage }

// historyFiles are the history that a restore writes, with the files that SQLite keeps next to it.
func historyFiles() []string {
	return []string{HistoryFile, HistoryFile + "-wal", HistoryFile + "-shm", HistoryFile + "-journal"}
}

// BeginStage makes an empty folder for the restore, in place of what an earlier one has left.
func BeginStage(dir, stage string) error {
	for _, name := range append(historyFiles(), ServerDir, WatermarkFile, RestoreStage) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	return files.SyncDirectory(dir)
}

// refuseRestoring refuses to begin empty where a restore was killed.
func refuseRestoring(dir string, entries []fs.DirEntry) error {
	if slices.ContainsFunc(entries, isStage) {
		return fmt.Errorf("data directory %s is the remains of an interrupted restore: run weir restore again, or remove the directory to begin empty", dir)
	}
	return nil
}

// Watermark says how far the journal was acknowledged, never more. A journal that ends before it was cut. It is written after each acknowledged
// flush, without a sync, and may lag after a crash of the machine.
//
// The file has two places of 32 bytes, which are written in turn, so that a torn write spoils one:
//
//	8 bytes  epoch, 8 bytes flush, 8 bytes sequence of the flush's last message
//	         in the stream, 4 bytes zero, 4 bytes CRC-32C; all little endian
type Watermark struct {
	Epoch  uint64
	Flush  uint64
	Stream uint64
}

const markBytes = 32

// WatermarkWriter writes the watermark of a directory; one at a time.
type WatermarkWriter struct {
	file *os.File
	turn int64
}

// OpenWatermark opens the file, which is made if it is not there.
func OpenWatermark(dir string) (*WatermarkWriter, error) {
	file, err := os.OpenFile(filepath.Join(dir, WatermarkFile), os.O_RDWR|os.O_CREATE|files.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	return &WatermarkWriter{file: file}, nil
}

// Write notes how far the journal was acknowledged, without a sync.
func (w *WatermarkWriter) Write(m Watermark) error {
	var b [markBytes]byte
	binary.LittleEndian.PutUint64(b[0:], m.Epoch)
	binary.LittleEndian.PutUint64(b[8:], m.Flush)
	binary.LittleEndian.PutUint64(b[16:], m.Stream)
	binary.LittleEndian.PutUint32(b[28:], wire.Sum(b[:28]))
	w.turn ^= 1
	_, err := w.file.WriteAt(b[:], w.turn*markBytes)
	return err
}

// Close closes the file, which stays.
func (w *WatermarkWriter) Close() error { return w.file.Close() }

// ReadWatermark returns the later of the two places that are sound. With neither, in
// a directory that is not new, the mark itself is damaged.
func ReadWatermark(dir string) (Watermark, error) {
	path := filepath.Join(dir, WatermarkFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Watermark{}, fmt.Errorf("%s: %w: it is missing", path, record.ErrDamaged)
	}
	if err != nil {
		return Watermark{}, err
	}
	var latest Watermark
	sound, foul := 0, 0
	for ; len(data) >= markBytes; data = data[markBytes:] {
		b := data[:markBytes]
		if binary.LittleEndian.Uint32(b[28:]) != wire.Sum(b[:28]) {
			foul++
			continue
		}
		sound++
		m := Watermark{binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
		// By epoch first: where damage was accepted, a journal may be shorter than
		// the one before.
		if m.Epoch > latest.Epoch || m.Epoch == latest.Epoch && m.Stream >= latest.Stream {
			latest = m
		}
	}
	if sound == 0 {
		return Watermark{}, fmt.Errorf("%s: %w: no sound mark in it", path, record.ErrDamaged)
	}
	return latest, nil
}
