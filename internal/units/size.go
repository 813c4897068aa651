package units

import (
	"fmt"
	"strconv"
	"strings"
)

// sizeUnits maps the lower-case unit to its bytes. K, M and G alone are left
// out: half of the world reads them as 1000, the other half as 1024.
var sizeUnits = map[string]int64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// ParseSize reads a number of bytes: 512MiB, 2GiB, 1.5GB or a plain number.
// KiB, MiB, GiB and TiB are powers of 1024, kB, MB, GB and TB powers of 1000;
// case does not matter and one space may stand before the unit.
func ParseSize(s string) (int64, error) {
	number, rest := cutNumber(s)
	width, known := sizeUnits[strings.ToLower(strings.TrimPrefix(rest, " "))]
	if number == "" || !known || width == 1 && strings.Contains(number, ".") {
		return 0, sizeError(s)
	}
	size, ok := scale(number, width)
	if !ok {
		return 0, sizeError(s)
	}
	return size, nil
}

func sizeError(s string) error {
	return fmt.Errorf("%.40q is not a size: write 512MiB, 2GiB, 1GB or a whole number of bytes", s)
}

// FormatSize writes a number of bytes in the largest binary unit that leaves
// at least one, with up to one decimal: 512MiB, 1.5GiB, 900B.
func FormatSize(bytes int64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(names)-1 {
		value /= 1024
		unit++
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + names[unit]
}
