package policy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weir-counter/weir/internal/units"
)

// MaxFileBytes is the largest policy file.
const MaxFileBytes = 1 << 20

// contentHash tells files apart by what is in them.
type contentHash [sha256.Size]byte

// Load reads the policy file at path. The error is Faults, or that of the file system.
func Load(path string) (*Set, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// readFile reads a regular file, one byte more than MaxFileBytes at most. Another kind,
// a pipe for example, could make the reader wait for ever.
func readFile(path string) (data []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file: name a YAML file of policies", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	return data, errors.Join(err, file.Close())
}

func tooLarge() string {
	return fmt.Sprintf("larger than %s: a policy file is smaller; users are told apart by their keys, not by policies", units.FormatSize(MaxFileBytes))
}
