package auth

import (
	"strings"
	"testing"
)

// What the YAML reader does not take is reported by line, without types of Go.
func TestUnreadableFiles(t *testing.T) {
	for text, want := range map[string]string{
		"identities:\n- name: a\n  permissionz: [{role: read}]\n":                   "f:3: permissionz: unknown field here, did you mean permissions?; there are identities, name, ",
		"identities:\n- {name: a, permissions: [{role: read, foo: 1}]}\nother: 1\n": "f:3: other: unknown field here",
		"identities:\n- name: [a\n":                                                 "not YAML: ",
		"identities:\n\tname: a\n":                                                  "f:2: not YAML: ",
		"":                                                                          "f:1: nobody is in it: 'weir token create",
		"# to be written\n":                                                         "f:1: nobody is in it: 'weir token create",
		"identities: all\n":                                                         "f:1: this value is of another kind",
		"identities:\n- name: {a: b}\n":                                             "f:2: this value is of another kind",
		"identities: [{name: a, name: b}]\n":                                        `f:1: mapping key "name" already defined at line 1: remove one`,
	} {
		_, err := Parse("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "auth.") || strings.Contains(err.Error(), "go-yaml") || strings.Contains(err.Error(), "[]") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
