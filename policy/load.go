package policy

import (
	"fmt"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/units"
)

// MaxFileBytes is the largest policy file.
const MaxFileBytes = 1 << 20

// Load reads the policy file at path. The error is Faults, or that of the file system.
func Load(path string) (*Set, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads the text of the policy file at path, if it is not larger than MaxFileBytes.
func ReadFile(path string) ([]byte, error) { return filewatch.Read(path, "policies", MaxFileBytes) }

func tooLarge() string {
	return fmt.Sprintf("larger than %s: a policy file is smaller; users are told apart by their keys, not by policies", units.FormatSize(MaxFileBytes))
}
