package forwarded

import (
	"crypto/sha256"
	"encoding/hex"
	"net/textproto"
	"path"
	"slices"
	"strconv"
	"strings"
)

// nothing stands for a value that is not there, so that all requests without it share a key, and a
// pattern such as user:{user} takes that too.
const nothing = "-"

// secrets are fields whose values are not written into keys, which lists, logs and backups show.
var secrets = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Weir-Token"}

// methods are those that are told apart: a client may invent others, and would have a key of its own for each.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}

// variable is how the value of a variable is read, or what is wrong with its name.
func variable(text string) (read func(*Request) (string, error), bad string) {
	name, of, has := strings.Cut(text, ":")
	plain := func(read func(*Request) string) func(*Request) (string, error) {
		return func(r *Request) (string, error) { return read(r), nil }
	}
	switch {
	case text == "client":
		return (*Request).client, ""
	case text == "host":
		return plain((*Request).host), ""
	case text == "method":
		return plain((*Request).method), ""
	case text == "path":
		return plain(func(r *Request) string { return r.path(0) }), ""
	case name == "path" && has:
		parts, err := strconv.Atoi(of)
		if err != nil || parts < 1 || parts > 9 {
			return nil, "(" + text + ") must have a number from 1 to 9"
		}
		return plain(func(r *Request) string { return r.path(parts) }), ""
	case (name == "header" || name == "hash") && of != "":
		field := textproto.CanonicalMIMEHeaderKey(of)
		if name == "hash" {
			return plain(func(r *Request) string { return r.hash(field) }), ""
		}
		if slices.Contains(secrets, field) {
			return nil, "the value of " + field + " is a secret, and keys are not: write (hash:" + of + ")"
		}
		return plain(func(r *Request) string { return written(r.last(field), false) }), ""
	}
	return nil, "(" + text + ") is unknown: there are " + known
}

func (r *Request) host() string {
	host := strings.ToLower(lastOf(r.last("X-Forwarded-Host")))
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		host = host[:at]
	}
	return written(strings.TrimSuffix(host, "."), false)
}

func (r *Request) method() string {
	switch method := r.last("X-Forwarded-Method"); {
	case method == "":
		return nothing
	case slices.Contains(methods, method):
		return method
	}
	return "OTHER"
}

// path is what the client asks for, decoded and cleaned, so that /a, //a, /b/../a, /%61 and /a/ are one;
// of it the first parts, or with 0 all.
func (r *Request) path(parts int) string {
	text := r.last(Mark)
	if _, after, absolute := strings.Cut(text, "://"); absolute && !strings.HasPrefix(text, "/") {
		_, text, _ = strings.Cut(after, "/")
	}
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	text = path.Clean("/" + decoded(text))
	for i := range text {
		if i > 0 && text[i] == '/' {
			if parts--; parts == 0 {
				text = text[:i]
				break
			}
		}
	}
	return written(text, true)
}

// decoded undoes percent-encoding once; what is not well encoded stays as it is.
func decoded(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// hash is half of the digits of a field's SHA-256: enough to tell secrets apart, and not to guess one.
func (r *Request) hash(field string) string {
	value := r.last(field)
	if value == "" {
		return nothing
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// written is a value as keys have it: valid UTF-8 with at most maxValue bytes, and what separates the
// parts of a key percent-encoded.
func written(value string, slashes bool) string {
	if value == "" {
		return nothing
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(min(len(value), maxValue))
	for _, c := range value { // U+FFFD for what is not UTF-8
		encode := c <= ' ' || c == 0x7f || c == ':' || c == '%' || c == '/' && !slashes
		size := len(string(c))
		if encode {
			size = 3
		}
		if b.Len()+size > maxValue {
			break
		}
		if encode {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}
