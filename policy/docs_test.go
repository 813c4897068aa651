package policy

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/policies.md tells of all fields, and its file is good, with nothing odd in it.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, file, _ := strings.Cut(text, "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	set, err := Parse("policies.md", []byte(file))
	if err != nil || len(set.Policies()) < 3 {
		t.Fatalf("%v", err)
	}
	if odd := set.Warnings("policies.md"); len(odd) > 0 {
		t.Errorf("%v", odd)
	}
	for _, field := range slices.Concat(policyFields, overrideFields) {
		if !strings.Contains(text, "\n| `"+field+"` |") && !strings.Contains(text, "a list of `"+field+"`") {
			t.Errorf("nothing about %s", field)
		}
	}
}
