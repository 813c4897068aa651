package policy

import (
	"os"
	"path/filepath"
	"regexp"
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
	if warnings := set.Warnings("policies.md"); len(warnings) > 0 {
		t.Errorf("%v", warnings)
	}
	for _, field := range slices.Concat(policyFields, overrideFields) {
		if !strings.Contains(text, "\n| `"+field+"` |") && !strings.Contains(text, "a list of `"+field+"`") {
			t.Errorf("nothing about %s", field)
		}
	}
}

// Every policy file in the documentation is valid.
func TestPolicyFilesInDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tutorials, err := filepath.Glob("../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, page := range slices.Concat(pages, tutorials, []string{"../README.md"}) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(limits:.*?)^```$").FindAllSubmatch(text, -1) {
			files++
			if _, err := Parse(filepath.Base(page), block[1]); err != nil {
				t.Errorf("%v in\n%s", err, block[1])
			}
		}
	}
	if files < 10 {
		t.Errorf("%d policy files", files)
	}
}
