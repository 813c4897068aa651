package pattern

import (
	"os"
	"regexp"
	"testing"
)

// Keys are counted as docs/policies.md says.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| `([^`]+)` \\| (?:`([^`]+)`|no limit) \\|$").FindAllStringSubmatch(string(text), -1)
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
