package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	for _, test := range []struct {
		name, text string
		at         int64
		n          uint64
		key, path  string
	}{
		{"seconds", `{"ts":1700000000,"key":"a"}`, 1700000000, 1, "a", ""},
		{"fraction", `{"ts":1700000000.99999999,"key":"a"}`, 1700000000, 1, "a", ""},
		{"exponent", `{"ts":1.7e9}`, 1700000000, 1, "", ""},
		{"milliseconds", `{"ts":1700000000999,"n":3}`, 1700000000, 3, "", ""},
		{"nanoseconds", `{"ts":1700000000999999999,"count":3}`, 1700000000, 3, "", ""},
		{"text seconds", `{"time":"1700000000"}`, 1700000000, 1, "", ""},
		{"RFC 3339", `{"@timestamp":"2023-11-14T23:13:20.5+01:00","path":"/x"}`, 1700000000, 1, "", "/x"},
		{"log time", `{"timestamp":"14/Nov/2023:22:13:20 +0000"}`, 1700000000, 1, "", ""},
		{"nginx's names", `{"time_iso8601":"2023-11-14T23:13:20+01:00","key":"a"}`, 1700000000, 1, "a", ""},
		{"at goes first", `{"ts":1,"time":2,"at":1700000000}`, 1700000000, 1, "", ""},
		{"null is missing", `{"at":null,"ts":1700000000,"key":null,"n":null}`, 1700000000, 1, "", ""},
		{"escapes", `{"at":1700000000,"key":"a\"\u00e9\n","p\u0061th":"\/b"}`, 1700000000, 1, "a\"é\n", "/b"},
		{"numbers and words as keys", `{"at":1700000000,"key":12.50,"path":true}`, 1700000000, 1, "12.50", "true"},
		{"nested", `{"a":{"key":"x","b":[1,{"}":2}]},"at":1700000000,"key":{"x":1},"path":[2]}`, 1700000000, 1, "", ""},
		{"spaces", "\t{ \"at\" : 1700000000 , \"key\" : \"a\" } \r", 1700000000, 1, "a", ""},
		{"the last of two", `{"at":1,"at":1700000000,"key":"a","key":"b"}`, 1700000000, 1, "b", ""},
		{"no hits", `{"at":1700000000,"n":0}`, 1700000000, 0, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, l := newJSONParser(&plan{fields: []string{"key", "path"}}), line{fields: make([][]byte, 2)}
			if err := p.parse([]byte(test.text), &l); err != nil {
				t.Fatal(err)
			}
			if l.at != test.at || l.n != test.n || string(l.fields[0]) != test.key || string(l.fields[1]) != test.path {
				t.Errorf("got %d %d %q %q", l.at, l.n, l.fields[0], l.fields[1])
			}
		})
	}
}

func TestJSONMalformed(t *testing.T) {
	for text, want := range map[string]error{
		``:                              errNotJSON,
		`[1]`:                           errNotJSON,
		`{"at":1`:                       errNotJSON,
		`{"at":1} x`:                    errNotJSON,
		`{}`:                            errNoTimeField,
		`{"at":{}}`:                     errNoTimeField,
		`{"at":"yesterday"}`:            errBadTime,
		`{"at":true}`:                   errBadTime,
		`{"at":-1}`:                     errTimeRange,
		`{"at":1e300}`:                  errTimeRange,
		`{"at":"1960-01-01T00:00:00Z"}`: errTimeRange,
		`{"at":1,"n":-1}`:               errBadWeight,
		`{"at":1,"n":1.5}`:              errBadWeight,
		`{"at":1,"n":"x"}`:              errBadWeight,
		`{"at":1,"n":4294967297}`:       errBadWeight,
	} {
		p, l := newJSONParser(&plan{}), line{}
		if err := p.parse([]byte(text), &l); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
}

// Objects are entered as deep as a name may be, and lists in one pass: the depth of a message does not multiply its cost.
func TestDeepJSON(t *testing.T) {
	const depth = 4000
	o, err := NewObjects([]string{"{a.b}"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	for text, want := range map[string]string{
		strings.Repeat(`{"a":`, depth) + long + strings.Repeat("}", depth):                                      "",
		`{"a":{"b":` + strings.Repeat("[", depth) + `7,` + long + strings.Repeat("]", depth) + `,"c":{"b":9}}}`: "7",
		`{"a":{"b":[[],7]}}`:                "",
		`{"a":{"b":[ [ "x" ] , 7]}}`:        "x",
		`{"a":{"b":[{"b":7}],"b":{"b":8}}}`: "",
		`{"a.b":1,"a":{"a":{"b":2}}}`:       "1",
	} {
		o.Begin()
		if err := o.Add("", []byte(text)); err != nil || string(o.Field("a.b")) != want {
			t.Errorf("%.40s: %q, %v, want %q", text, o.Field("a.b"), err, want)
		}
		if cap(o.path) > 64 {
			t.Errorf("%.40s: entered with a path of %d bytes", text, cap(o.path))
		}
	}
}

// FuzzJSON compares the scanner with encoding/json.
func FuzzJSON(f *testing.F) {
	f.Add(`{"ts":1700000000.5,"key":"a\\\"b","x":{"key":[1,"]"]},"n":2}`)
	f.Add(`{ "at" : "2023-11-14T22:13:20Z" , "key" : -0.5e3 , "key":null}`)
	p, l := newJSONParser(&plan{fields: []string{"key", "x"}}), line{fields: make([][]byte, 2)}
	f.Fuzz(func(t *testing.T, text string) {
		err := p.parse([]byte(text), &l)
		var fields map[string]json.RawMessage
		object := json.Unmarshal([]byte(text), &fields) == nil && fields != nil
		if !object {
			if !errors.Is(err, errNotJSON) {
				t.Fatalf("%q: got %v, want errNotJSON", text, err)
			}
			return
		}
		if errors.Is(err, errNotJSON) {
			t.Fatalf("%q is an object", text)
		}
		for i, name := range []string{"key", "x"} {
			if got, want := string(l.fields[i]), naiveText(t, fields[name]); got != want {
				t.Fatalf("%q: {%s} is %q, want %q", text, name, got, want)
			}
		}
	})
}

func naiveText(t *testing.T, raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || strings.ContainsAny(string(raw[:1]), "{[n"):
		return ""
	case raw[0] == '"':
		// Broken UTF-8 stays as it is unless there are escapes to read.
		if !bytes.Contains(raw, []byte(`\`)) {
			return string(raw[1 : len(raw)-1])
		}
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	return string(raw)
}

func TestTSV(t *testing.T) {
	for _, test := range []struct {
		text string
		at   int64
		n    uint64
		key  string
		err  error
	}{
		{"804571201\t1", 804571201, 1, "", nil},
		{"804571201\t0", 804571201, 0, "", nil},
		{"804571201 12 url:/a", 804571201, 12, "url:/a", nil},
		{"804571201\t12\ta key\tmore", 804571201, 12, "a key", nil},
		{"804571201   12   a key", 804571201, 12, "a", nil},
		{"1700000000123\t12\t", 1700000000, 12, "", nil},
		{"", 0, 0, "", errNotTSV},
		{"1", 0, 0, "", errNotTSV},
		{"epoch\tcount", 0, 0, "", errBadTime},
		{"1\tmany", 0, 0, "", errBadWeight},
		{"99999999999\t1", 0, 0, "", errTimeRange},
	} {
		l := line{fields: make([][]byte, 1)}
		err := tsvParser{}.parse([]byte(test.text), &l)
		if !errors.Is(err, test.err) {
			t.Errorf("%q: got %v, want %v", test.text, err, test.err)
		}
		if err == nil && (l.at != test.at || l.n != test.n || string(l.fields[0]) != test.key) {
			t.Errorf("%q: got %d %d %q", test.text, l.at, l.n, l.fields[0])
		}
	}
}
