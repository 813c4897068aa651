package argument

import (
	"strings"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/resp/protocol"
	"github.com/weir-counter/weir/service"
)

// View is b as a string without a copy, for callees that keep no part of it.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Wrong is the error of an argument.
func Wrong(code api.Code, field, message string) error {
	return &service.Error{Code: code, Field: field, Message: message}
}

// Count reads a number of admissions.
func Count(arg []byte, field string, least uint64) (uint64, error) {
	n, ok := protocol.ParseUint(arg)
	if !ok || n < least {
		must := "a whole number from 0"
		if least > 0 {
			must = "a whole number from 1"
		}
		return 0, Wrong(api.CodeInvalidCount, field, field+" of "+Clip(arg)+": must be "+must)
	}
	return n, nil
}

// Duration reads a time such as 5m.
func Duration(arg []byte, field string) (time.Duration, error) {
	d, err := units.ParseDuration(View(arg))
	if err != nil {
		return 0, Wrong(api.CodeInvalidParameter, field, field+": "+err.Error())
	}
	return d, nil
}

// Int reads a number as commands of Redis have it.
func Int(arg []byte) (int64, error) {
	n, ok := protocol.ParseInt(arg)
	if !ok {
		return 0, ErrNotInteger
	}
	return n, nil
}

// Clip keeps an echo of the client's own words short.
func Clip(text []byte) string {
	const most = 64
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

// Is compares a word that people write in any case.
func Is(word []byte, with string) bool {
	return len(word) == len(with) && strings.EqualFold(View(word), with)
}
