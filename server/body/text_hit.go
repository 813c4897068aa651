package body

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

var (
	rejectControl = reject(api.CodeInvalidKey, "the key has a control character; send such keys as JSON")
	rejectAsText  = reject(api.CodeInvalidLine, "the line begins as JSON, among lines of text: send all as application/x-ndjson; a key that begins with { or [ is sent as JSON")
	rejectFields  = reject(api.CodeInvalidLine, "a line is: key [n [at]]; send one hit per line (curl: --data-binary keeps newlines, -d does not) and keys with spaces as JSON")
)

// parseTextHit reads a line `key [n [at]]`, its parts apart by spaces or tabs.
// blank is true for a line without anything on it.
func parseTextHit(line []byte) (h hit, blank bool, rej *service.Rejection) {
	key, rest, control := cutKey(line)
	if len(key) == 0 {
		return h, true, nil
	}
	if key[0] == '{' || key[0] == '[' {
		return h, false, rejectAsText
	}
	if control {
		return h, false, rejectControl
	}
	if rej := service.CheckHitKey(view(key)); rej != nil {
		return h, false, rej
	}
	h.key, h.n = view(key), 1
	n, rest := cutField(rest)
	if len(n) == 0 {
		return h, false, nil
	}
	at, rest := cutField(rest)
	if extra, _ := cutField(rest); len(extra) > 0 {
		return h, false, rejectFields
	}
	if h.n, rej = service.ParseCount(view(n)); rej != nil {
		return h, false, rej
	}
	if len(at) > 0 {
		h.hasAt = true
		h.at, rej = service.ParseAt(view(at))
	}
	return h, false, rej
}

// cutKey is cutField that also tells whether the field has a control
// character. A carriage return at the end of the line is white space.
func cutKey(b []byte) (key, rest []byte, control bool) {
	i := 0
	for i < len(b) && isTextSpace(b, i) {
		i++
	}
	start := i
	for i < len(b) && b[i] != ' ' {
		if b[i] < ' ' {
			if isTextSpace(b, i) {
				break
			}
			control = true
		}
		control = control || b[i] == 0x7f
		i++
	}
	return b[start:i], b[i:], control
}

// cutField splits the first run of bytes that are not white space from b.
func cutField(b []byte) (field, rest []byte) {
	i := 0
	for i < len(b) && isTextSpace(b, i) {
		i++
	}
	start := i
	for i < len(b) && !isTextSpace(b, i) {
		i++
	}
	return b[start:i], b[i:]
}

func isTextSpace(b []byte, i int) bool {
	return b[i] == ' ' || b[i] == '\t' || b[i] == '\r' && i == len(b)-1
}
