package auth

import (
	"fmt"
	"os"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
)

// MaxFileBytes is the largest file.
const MaxFileBytes = 1 << 20

// Load reads the file at path.
func Load(path string) (*Set, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// readFile reads a regular file that not everybody may write.
func readFile(path string) ([]byte, error) {
	data, err := filewatch.Read(path, "tokens", MaxFileBytes)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("%s: everybody on this machine may write it, and so give themselves any role: chmod 600 %s", path, path)
	}
	return data, nil
}

func tooLarge(path string) error {
	return fmt.Errorf("%s: larger than %s: that is no file of tokens", path, units.FormatSize(MaxFileBytes))
}
