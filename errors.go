package weir

// Code names one kind of failure. Codes are stable: clients may branch on
// them, and every protocol maps each code exactly once.
type Code string

// The codes that the engine and the counter give.
const (
	CodeInvalidKey    Code = "invalid_key"      // a key that is empty or longer than MaxKeyBytes
	CodeReservedKey   Code = "reserved_key"     // a hit or a delete on AllKeys
	CodeInvalidCount  Code = "invalid_count"    // a hit of n = 0
	CodeInvalidTime   Code = "invalid_time"     // a time before 1970 or after window.MaxTime
	CodeTooLate       Code = "too_late"         // a hit now, by a clock that has run back for longer than the retention
	CodeTooFarAhead   Code = "too_far_ahead"    // a hit beyond the engine's clock plus MaxAhead
	CodeInvalidWindow Code = "invalid_window"   // a window that is not whole seconds within 1 s to 1e9 s
	CodeInvalidRange  Code = "invalid_range"    // a series or page with impossible limits
	CodeInvalidLimit  Code = "invalid_limit"    // a limit outside what it may be
	CodeInvalidConfig Code = "invalid_config"   // a Config field outside what it may be
	CodeOverloaded    Code = "overloaded"       // hits wait for the journal and MaxWaiting is reached: retry later
	CodeOnceFull      Code = "idempotency_full" // an idempotency key more than OnceMemory has room for
	CodeKeyReused     Code = "key_reused"       // an idempotency key that came with another content before
	CodeNotHeld       Code = "not_held"         // a question about a partition that another node's engine holds
	CodeNotFresh      Code = "not_fresh"        // a question that other nodes' newer hits must be in, and are not in time
	CodeClosed        Code = "closed"           // the engine was closed
)

// Error is the one error type of this package: what went wrong (Code), where
// (Field, the name of the argument or setting, may be empty) and what to do
// about it (Message).
type Error struct {
	Code    Code
	Field   string
	Message string
}

var errNotHeld = &Error{CodeNotHeld, "key", "the key's partition is held by other nodes, and none of them could be asked: retry in a second"}

// ifHeld is errNotHeld for an answer about partitions that are not held.
func ifHeld(held bool) error {
	if !held {
		return errNotHeld
	}
	return nil
}

func (e *Error) Error() string { return e.Message }
