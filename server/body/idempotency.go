package body

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// ReadKey reads an idempotency key: a quoted string as the IETF's draft has it,
// or the same letters without quotes.
func ReadKey(values []string) (string, *service.Error) {
	if len(values) == 0 {
		return "", nil
	}
	key := strings.Trim(values[0], " \t")
	ok := len(values) == 1
	if strings.HasPrefix(key, `"`) {
		key, ok = unquoteKey(key)
		ok = ok && len(values) == 1
	} else if strings.ContainsAny(key, `",;\ `) {
		ok = false
	}
	control := func(r rune) bool { return r < ' ' || r > '~' }
	if !ok || key == "" || len(key) > weir.MaxOnceKeyBytes || slices.ContainsFunc([]rune(key), control) {
		return "", fail(api.CodeInvalidIdempotencyKey, IdempotencyKey, "send one Idempotency-Key of 1 to "+strconv.Itoa(weir.MaxOnceKeyBytes)+
			` ASCII characters, such as a UUID; one with a space or any of ",;\ stands in "quotes"`)
	}
	return key, nil
}

// unquoteKey reads a string of RFC 8941: \" and \\ are its only escapes.
func unquoteKey(quoted string) (key string, ok bool) {
	b := make([]byte, 0, len(quoted))
	for i := 1; i < len(quoted); i++ {
		switch c := quoted[i]; c {
		case '"':
			return string(b), i == len(quoted)-1
		case '\\':
			if i++; i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
			b = append(b, quoted[i])
		default:
			b = append(b, c)
		}
	}
	return "", false
}
