package policy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/policies.md tells of all fields, its file is good, and its keys are counted as it
// says.
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
	for _, field := range slices.Concat(policyFields, overrideFields) {
		if !strings.Contains(text, "\n| `"+field+"` |") && !strings.Contains(text, "a list of `"+field+"`") {
			t.Errorf("nothing about %s", field)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| `([^`]+)` \\| (?:`([^`]+)`|no limit) \\|$").FindAllStringSubmatch(text, -1)
	if len(rows) < 8 {
		t.Fatalf("%d rows of keys", len(rows))
	}
	for _, row := range rows {
		want := row[4]
		if want == "" {
			want = "-"
		}
		if got := countedKey(row[1], row[3], row[2]); got != want {
			t.Errorf("keys %s by %s, key %s: counted %s, and the page says %s", row[1], row[3], row[2], got, want)
		}
	}
}
