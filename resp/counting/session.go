package counting

import (
	"errors"
	"strconv"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/protocol"
)

// Session is one connection's use of counters. It belongs to the goroutine of the connection.
type Session struct {
	Counters counters.View
	Millis   int64 // now, in milliseconds of the door's clock
	Out      *protocol.Writer
}

// maxCounterKey is the longest key of a counter, in bytes: that of a hit.
const maxCounterKey = 512

// CheckKey refuses a key that is too long.
func CheckKey(key []byte) error {
	if len(key) > maxCounterKey {
		return argument.Fail("ERR", "invalid_key: key of "+strconv.Itoa(len(key))+" bytes: must have at most 512")
	}
	return nil
}

// Failure is an error of package counters, as Redis has it.
func Failure(err error) error {
	if errors.Is(err, counters.ErrOverflow) {
		return argument.ErrOverflow
	}
	return argument.Fail("OOM", err.Error()+": start the server with a larger --resp-counters, or let counters expire sooner")
}
