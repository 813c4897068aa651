package argument

// Error is an error as it is written: its kind, and what is wrong.
type Error struct{ Kind, Text string }

// Fail is an error of a kind, which clients tell apart, with a text for people.
func Fail(kind, text string) *Error { return &Error{kind, text} }

func (e *Error) Error() string { return e.Kind + " " + e.Text }

// The errors of Redis, in its words, which clients may know.
var (
	ErrSyntax     = Fail("ERR", "syntax error")
	ErrNotInteger = Fail("ERR", "value is not an integer or out of range")
	ErrOverflow   = Fail("ERR", "increment or decrement would overflow")
	ErrExpireTime = Fail("ERR", "invalid expire time")
)
