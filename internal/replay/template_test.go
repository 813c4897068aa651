package replay

import (
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	for _, test := range []struct {
		templates []string
		want      string // part of the error; empty is none
	}{
		{[]string{"url:{path}"}, ""},
		{[]string{"{path}"}, ""},
		{[]string{"all"}, ""},
		{[]string{"url:{path}", "host:{host}", "hs:{host}:{status}"}, ""},
		{[]string{""}, "an empty key template"},
		{[]string{"url:{path"}, "a { without a }"},
		{[]string{"url:path}"}, "a } without a {"},
		{[]string{"url:{}"}, "the name of a field"},
		{[]string{"url:{{path}}"}, "the name of a field"},
		{[]string{"{path}", "host:{host}"}, "look alike"},
		{[]string{"a:{path}", "a:{host}"}, "look alike"},
		{strings.Fields(strings.Repeat("x ", MaxTemplates+1)), "at most 16"},
	} {
		_, err := parseTemplates(test.templates)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: got %v, want %q", test.templates, err, test.want)
		}
	}
}

func TestUnknownField(t *testing.T) {
	for format, field := range map[Format]string{CLF: "{referrer}", TSV: "{path}"} {
		templates, err := parseTemplates([]string{"a:" + field})
		if err != nil {
			t.Fatal(err)
		}
		_, err = newPlan(format, templates)
		if err == nil || !strings.Contains(err.Error(), "has no field "+field+"; it has {") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestKeyOfLine(t *testing.T) {
	templates, err := parseTemplates([]string{"s {status} of {host}!", "url:{path}"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := newPlan(CLF, templates)
	if err != nil {
		t.Fatal(err)
	}
	p, l := plan.newParser(), plan.newLine()
	if err := p.parse([]byte(`h - - [10/Oct/2000:13:55:36 +0000] "-" 408 -`), &l); err != nil {
		t.Fatal(err)
	}
	if key, ok := plan.bound[0].appendKey(nil, l.fields); !ok || string(key) != "s 408 of h!" {
		t.Errorf("got %q, %v", key, ok)
	}
	if key, ok := plan.bound[1].appendKey(nil, l.fields); ok {
		t.Errorf("a request without a path has the key %q", key)
	}
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]Format{
		"":                  CLF,
		"\x00\xff\nrubbish": CLF,
		"h - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.0\" 200 1\r\n": CLF,
		"rubbish\n{\"at\":1}\n":    JSON,
		"{\"when\":\"now\"}\n":     JSON, // its time is not found, and the reason says so
		"epoch\tcount\n1 2\n3 4\n": TSV,
	} {
		if got, _ := detect([]byte(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
