package request

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

// Rejection is why a hit of a request was not counted.
type Rejection struct {
	Code    api.Code
	Message string
}

// Reject is a Rejection of a code with a message.
func Reject(code api.Code, message string) *Rejection { return &Rejection{code, message} }

var (
	rejectEmptyKey = Reject(api.CodeInvalidKey, "the key is empty")
	rejectLongKey  = Reject(api.CodeInvalidKey, "the key is longer than 512 bytes")
	rejectKeyUTF8  = Reject(api.CodeInvalidKey, "the key is not UTF-8")
	rejectLimitKey = Reject(api.CodeReservedKey, "keys limit:... are counted by limits alone, so that their counts are true: write another key")
	rejectCount    = Reject(api.CodeInvalidCount, "n must be a whole number from 1 to 1099511627776, in digits")
)

// ParseKey is what is wrong with a key, which has 1 to 512 bytes of UTF-8: answers are
// JSON, which could not name another. nil: nothing.
func ParseKey(key string) *Rejection {
	switch {
	case len(key) == 0:
		return rejectEmptyKey
	case len(key) > engine.MaxKeyBytes:
		return rejectLongKey
	case !utf8.ValidString(key):
		return rejectKeyUTF8
	}
	return nil
}

// ParseHitKey is Key, and that the key is not one that limits count their decisions
// under, which no hit may name.
func ParseHitKey(key string) *Rejection {
	if strings.HasPrefix(key, admit.HitPrefix) {
		return rejectLimitKey
	}
	return ParseKey(key)
}

// ParseCount reads how many hits: digits only, 1 to engine.MaxHits.
func ParseCount(text string) (uint64, *Rejection) {
	var n uint64
	for i := range len(text) {
		digit := uint64(text[i] - '0') // anything below '0' wraps to a large number
		if digit > 9 {
			return 0, rejectCount
		}
		if n = n*10 + digit; n > engine.MaxHits {
			return 0, rejectCount
		}
	}
	if n == 0 {
		return 0, rejectCount
	}
	return n, nil
}

// ParseAt reads the time of a hit: RFC 3339, or Unix seconds with a fraction if need be. It
// keeps no part of text.
func ParseAt(text string) (time.Time, *Rejection) {
	// The common form, whole Unix seconds, without the general reader.
	if len(text) > 0 && len(text) <= 10 {
		var seconds int64
		for i := range len(text) {
			c := text[i]
			if c < '0' || c > '9' {
				break
			}
			seconds = seconds*10 + int64(c-'0')
			if i == len(text)-1 {
				return time.Unix(seconds, 0), nil
			}
		}
	}
	t, err := units.ParseTime(text)
	if err != nil {
		return time.Time{}, Reject(api.CodeInvalidTime, "at: "+err.Error())
	}
	return t, nil
}
