package server

import (
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service"
)

// hit is one record of a body. key is a view of the body's buffer or of a
// scratch buffer and lives until the next record is read.
type hit struct {
	key   string
	n     uint64
	at    time.Time
	hasAt bool
}

// rejection is why a record was not counted.
type rejection struct {
	code    api.Code
	message string
}

var (
	rejectEmptyKey = &rejection{api.CodeInvalidKey, "the key is empty"}
	rejectLongKey  = &rejection{api.CodeInvalidKey, "the key is longer than 512 bytes"}
	rejectKeyUTF8  = &rejection{api.CodeInvalidKey, "the key is not UTF-8"}
	rejectLimitKey = &rejection{api.CodeReservedKey, service.ReservedMessage}
	rejectCount    = &rejection{api.CodeInvalidCount, "n must be a whole number from 1 to 1099511627776, in digits"}
)

// view returns b as a string without a copy. The string must be gone before b
// is written to again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parseCount reads n: digits only, 1 to weir.MaxHits.
func parseCount(b []byte) (uint64, *rejection) {
	var n uint64
	for _, c := range b {
		digit := uint64(c - '0') // anything below '0' wraps to a large number
		if digit > 9 {
			return 0, rejectCount
		}
		if n = n*10 + digit; n > weir.MaxHits {
			return 0, rejectCount
		}
	}
	if n == 0 {
		return 0, rejectCount
	}
	return n, nil
}

// parseAt reads a time as both formats write it.
func parseAt(b []byte) (time.Time, *rejection) {
	// The common form, whole Unix seconds, without the general reader.
	if len(b) > 0 && len(b) <= 10 {
		var seconds int64
		for i, c := range b {
			if c < '0' || c > '9' {
				break
			}
			seconds = seconds*10 + int64(c-'0')
			if i == len(b)-1 {
				return time.Unix(seconds, 0), nil
			}
		}
	}
	t, err := units.ParseTime(view(b)) // keeps no part of b
	if err != nil {
		return time.Time{}, &rejection{api.CodeInvalidTime, "at: " + err.Error()}
	}
	return t, nil
}

// checkKey is what both formats ask of a key: 1 to 512 bytes of UTF-8. Answers
// are JSON, which could not name a key that is not UTF-8.
func checkKey(key []byte) *rejection {
	switch {
	case len(key) == 0:
		return rejectEmptyKey
	case len(key) > weir.MaxKeyBytes:
		return rejectLongKey
	case !utf8.Valid(key):
		return rejectKeyUTF8
	}
	return nil
}

// checkHitKey is checkKey, and that the key is not one that limits count under.
func checkHitKey(key []byte) *rejection {
	if service.Reserved(key) {
		return rejectLimitKey
	}
	return checkKey(key)
}

// quoteField echoes a piece of a record in a message; it copies.
func quoteField(b []byte) string {
	return `"` + strings.ToValidUTF8(clip(string(b)), "?") + `"`
}
