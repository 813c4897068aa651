package httpapi

import (
	"strings"
	"testing"
)

func TestBodyIdempotencyKeySyntax(t *testing.T) {
	for header, want := range map[string]string{
		"8e03978e-40d5-43dd-bc93-6894a57f9324":   "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`"8e03978e-40d5-43dd-bc93-6894a57f9324"`: "8e03978e-40d5-43dd-bc93-6894a57f9324",
		` x `:                                    "x",
		`"a \"b\\ ,;"`:                           `a "b\ ,;`,
		strings.Repeat("x", 255):                 strings.Repeat("x", 255),
		"":                                       "",
		`""`:                                     "",
		`"`:                                      "",
		`"a`:                                     "",
		`"a"b`:                                   "",
		`"a";p=1`:                                "",
		`"a\b"`:                                  "",
		`"a\`:                                    "",
		`a"b`:                                    "",
		"a b":                                    "",
		"a,b":                                    "",
		"é":                                      "",
		"a\tb":                                   "",
		strings.Repeat("x", 256):                 "",
		"\"" + "\x7f" + "\"":                     "",
		`"` + strings.Repeat("x", 256) + `"`:     "",
	} {
		got, p := ReadKey([]string{header})
		if got != want || (p == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", header, got, p, want)
		}
	}
	if _, p := ReadKey([]string{"a", "b"}); p == nil {
		t.Error("two keys are taken")
	}
}
