package body

import (
	"bytes"
	"mime"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// Format is how a body of hits is written.
type Format uint8

const (
	unknownFormat Format = iota
	textLines            // key [n [at]]
	jsonLines            // NDJSON: one object per line
	// JSONDocument is one object or an array of them.
	JSONDocument
	anyFormat // not declared: told from the first byte
)

// AcceptedTypes are the media types of hits, as Accept-Post has them.
const AcceptedTypes = "text/plain, application/x-ndjson, application/json"

var formats = map[string]Format{
	"text/plain":             textLines,
	"application/x-ndjson":   jsonLines,
	"application/ndjson":     jsonLines,
	"application/jsonl":      jsonLines,
	"application/json-lines": jsonLines,
	"application/jsonlines":  jsonLines,
	"application/json":       JSONDocument,
	"":                       anyFormat,
	// What curl -d declares unless told otherwise.
	formType: anyFormat,
}

const formType = "application/x-www-form-urlencoded"

// FormatOf reads a Content-Type.
func FormatOf(contentType string) (Format, error) {
	if f, ok := formats[contentType]; ok {
		return f, nil
	}
	name, params, err := mime.ParseMediaType(contentType)
	f := formats[name]
	if err != nil || f == unknownFormat {
		return unknownFormat, fail(api.CodeUnsupportedType, "Content-Type",
			"Content-Type "+service.Clip(contentType)+" is not taken: send one of "+AcceptedTypes)
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
		return f, nil
	default:
		return unknownFormat, fail(api.CodeUnsupportedType, "Content-Type", "charset "+service.Clip(charset)+" is not taken: send UTF-8")
	}
}

// sniff settles the format from the start of the body. An object that ends on
// its first line is the first of NDJSON, whatever kind of JSON was declared:
// both read it alike, and lines stay apart even when one is broken.
func sniff(f Format, start []byte) Format {
	start = bytes.TrimLeft(start, " \t\r\n")
	if f == anyFormat {
		f = textLines
		if isJSON(start) {
			f = JSONDocument
		}
	}
	if f != JSONDocument || len(start) == 0 || start[0] != '{' {
		return f
	}
	line, _, _ := bytes.Cut(start, []byte("\n"))
	if bytes.HasSuffix(bytes.TrimRight(line, " \t\r"), []byte("}")) {
		return jsonLines
	}
	return f
}

// isJSON tells JSON from text by its first byte that is not white space.
func isJSON(start []byte) bool {
	start = bytes.TrimLeft(start, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[')
}

// isForm tells an HTML form (key=a&n=2) from the lines that curl -d declares
// to be one: as a line it would count a key named "key=a&n=2".
func isForm(contentType string, start []byte) bool {
	return strings.HasPrefix(contentType, formType) && bytes.HasPrefix(start, []byte("key="))
}

// Small is up to how many bytes a body waits to be whole before it takes a place. While it arrives it costs its
// connection and a buffer of as much: those who send slowly, or nothing, keep nobody else out.
const Small = 16 << 10

// IdempotencyKey is the header field with the name of a request of hits, which counts once however often it is sent.
const IdempotencyKey = "Idempotency-Key"
