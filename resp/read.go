package resp

import (
	"time"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/resp/protocol"
	"github.com/weir-counter/weir/service"
)

// view is b as a string without a copy, for callees that keep no part of it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// wrong is the error of an argument.
func wrong(code api.Code, field, message string) error {
	return &service.Error{Code: code, Field: field, Message: message}
}

// readCount reads a number of admissions.
func readCount(arg []byte, field string, least uint64) (uint64, error) {
	n, ok := protocol.ParseUint(arg)
	if !ok || n < least {
		must := "a whole number from 0"
		if least > 0 {
			must = "a whole number from 1"
		}
		return 0, wrong(api.CodeInvalidCount, field, field+" of "+clip(arg)+": must be "+must)
	}
	return n, nil
}

func readDuration(arg []byte, field string) (time.Duration, error) {
	d, err := units.ParseDuration(view(arg))
	if err != nil {
		return 0, wrong(api.CodeInvalidParameter, field, field+": "+err.Error())
	}
	return d, nil
}

// readInt reads a number as commands of Redis have it.
func readInt(arg []byte) (int64, error) {
	n, ok := protocol.ParseInt(arg)
	if !ok {
		return 0, errNotInteger
	}
	return n, nil
}
