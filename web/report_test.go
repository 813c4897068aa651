package web

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A report is one page that loads nothing, and whatever a key is named, it ends no element.
func TestReport(t *testing.T) {
	var page bytes.Buffer
	if err := Report(&page, "replay", "v1", time.Unix(0, 0), map[string]string{"key": "</script><script>alert(1)</script><!--\u2028"}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "</script"); n != 2 {
		t.Errorf("%d scripts end", n)
	}
	if n := strings.Count(text, "</style"); n != 1 {
		t.Errorf("%d styles end", n)
	}
	for _, bad := range []string{"<!--", "src=", "href=", "<link", "@import", "url("} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if len(text) > 120<<10 {
		t.Errorf("an empty report has %d bytes", len(text))
	}
	if err := Report(&page, "replay", "v1", time.Unix(0, 0), func() {}); err == nil {
		t.Error("what is no JSON is written")
	}
}
