package resp

import (
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// This file reads the arguments of commands: numbers, durations, lifetimes of counters, words in any case; and has the errors
// that are written as replies.
//
// Invariant: what it returns keeps no part of an argument, but for View, which says so.

// ArgumentView is b as a string without a copy, for callees that keep no part of it.
func ArgumentView(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// WrongArgument is the error of an argument.
func WrongArgument(code api.Code, field, message string) error {
	return &api.Error{Code: code, Field: field, Message: message}
}

// ArgumentCount reads a number of admissions.
func ArgumentCount(arg []byte, field string, least uint64) (uint64, error) {
	n, ok := ParseUint(arg)
	if !ok || n < least {
		must := "a whole number from 0"
		if least > 0 {
			must = "a whole number from 1"
		}
		return 0, WrongArgument(api.CodeInvalidCount, field, field+" of "+ClipArgument(arg)+": must be "+must)
	}
	return n, nil
}

// ArgumentDuration reads a time such as 5m.
func ArgumentDuration(arg []byte, field string) (time.Duration, error) {
	d, err := units.ParseDuration(ArgumentView(arg))
	if err != nil {
		return 0, WrongArgument(api.CodeInvalidParameter, field, field+": "+err.Error())
	}
	return d, nil
}

// ArgumentInt reads a number as commands of Redis have it.
func ArgumentInt(arg []byte) (int64, error) {
	n, ok := ParseInt(arg)
	if !ok {
		return 0, ErrNotInteger
	}
	return n, nil
}

// ClipArgument keeps an echo of the client's own words short.
func ClipArgument(text []byte) string {
	const most = 64
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

// ArgumentIs compares a word that people write in any case.
func ArgumentIs(word []byte, with string) bool {
	return len(word) == len(with) && strings.EqualFold(ArgumentView(word), with)
}

// ReplyError is an error as it is written: its kind, and what is wrong.
type ReplyError struct{ Kind, Text string }

// NewReplyError is an error of a kind, which clients tell apart, with a text for people.
func NewReplyError(kind, text string) *ReplyError { return &ReplyError{kind, text} }

func (e *ReplyError) Error() string { return e.Kind + " " + e.Text }

// The errors of Redis, in its words, which clients may know.
var (
	ErrSyntax     = NewReplyError("ERR", "syntax error")
	ErrNotInteger = NewReplyError("ERR", "value is not an integer or out of range")
	ErrOverflow   = NewReplyError("ERR", "increment or decrement would overflow")
	ErrExpireTime = NewReplyError("ERR", "invalid expire time")
)

// ArgumentMoment reads a time of n units from a beginning, in milliseconds.
func ArgumentMoment(arg []byte, unit, from int64) (int64, error) {
	n, err := ArgumentInt(arg)
	if err != nil {
		return 0, err
	}
	if n > (math.MaxInt64-from)/unit || n < math.MinInt64/unit {
		return 0, ErrExpireTime
	}
	return n*unit + from, nil
}

// Lifetime is one of EX, PX, EXAT, PXAT and their number.
type Lifetime struct {
	Said bool
	At   int64 // milliseconds
}

// Read reads an option and its number, if it is one.
func (l *Lifetime) Read(option []byte, rest [][]byte, now int64) (known bool, err error) {
	unit, from := int64(1), int64(0)
	switch {
	case ArgumentIs(option, "EX"):
		unit, from = 1000, now
	case ArgumentIs(option, "PX"):
		from = now
	case ArgumentIs(option, "EXAT"):
		unit = 1000
	case ArgumentIs(option, "PXAT"):
	default:
		return false, nil
	}
	if l.Said || len(rest) == 0 {
		return true, ErrSyntax
	}
	l.Said = true
	n, err := ArgumentInt(rest[0])
	if err != nil {
		return true, err
	}
	if n <= 0 {
		return true, ErrExpireTime
	}
	l.At, err = ArgumentMoment(rest[0], unit, from)
	return true, err
}
