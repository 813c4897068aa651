package rlsconfig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
)

const (
	// MaxFiles is how many files a folder may have.
	MaxFiles = 1000
	// MaxBytes is the size of all files together.
	MaxBytes = 4 << 20
	// MaxLimits is how many limits a Config may have.
	MaxLimits = 5000
)

// Read reads a YAML file, or the files *.yaml and *.yml of a folder, as Parse takes them. Names that begin with
// a dot are left out: a mounted ConfigMap has some.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = list(path); err != nil {
			return nil, err
		}
	}
	var all []byte
	for _, file := range files {
		text, err := filewatch.Read(file, "limits", MaxBytes)
		if err != nil {
			return nil, err
		}
		if all = AppendFile(all, file, text); len(all) > MaxBytes {
			return nil, fmt.Errorf("%s: the files are larger than %s together", path, units.FormatSize(MaxBytes))
		}
	}
	return all, nil
}

func list(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		files = append(files, filepath.Join(dir, name))
	}
	switch {
	case len(files) == 0:
		return nil, fmt.Errorf("%s: it has no file whose name ends in .yaml or .yml", dir)
	case len(files) > MaxFiles:
		return nil, fmt.Errorf("%s: %d files: at most %d", dir, len(files), MaxFiles)
	}
	return files, nil
}

// What Read returns is, of each file: the length of its name and of its text, 4 bytes each, little-endian, and
// these.

// AppendFile adds a file, by its name for messages, to what Parse reads.
func AppendFile(b []byte, name string, text []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(append(b, name...), text...)
}

var errNoBundle = errors.New("rlsconfig: not what Read returns")

func cutFile(b []byte) (name string, text, rest []byte, err error) {
	if len(b) < 8 {
		return "", nil, nil, errNoBundle
	}
	n, m := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	if b = b[8:]; uint64(len(b)) < n+m {
		return "", nil, nil, errNoBundle
	}
	return string(b[:n]), bytes.Clone(b[n : n+m]), b[n+m:], nil
}
