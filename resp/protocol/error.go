package protocol

import "fmt"

// Error is a fault of the client's that leaves no way to tell where its next request begins:
// the connection must be closed after the client was told. The texts are those of Redis where it
// has one.
type Error struct{ Message string }

func (e *Error) Error() string { return "Protocol error: " + e.Message }

func fault(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }
