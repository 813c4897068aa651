package body

import (
	"strings"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/service"
)

// hit is one record of a body. key is a view of the body, or of a copy where it was written
// with escapes.
type hit struct {
	key   string
	n     uint64
	at    time.Time
	hasAt bool
}

// view returns b as a string without a copy. The string must be gone before b
// is written to again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// quoteField echoes a piece of a record in a message; it copies.
func quoteField(b []byte) string {
	return `"` + strings.ToValidUTF8(service.Clip(string(b)), "?") + `"`
}
