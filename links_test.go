package weir_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	markdownLink    = regexp.MustCompile(`\]\(([^()\s]*)\)`)
	markdownHeading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	fencedCode      = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan        = regexp.MustCompile("`[^`\n]*`")
	anchorDropped   = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// Every relative link of the documentation names a file that exists, and every anchor a heading of it.
func TestDocumentationLinks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("docs", func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	anchors := map[string][]string{}
	for _, page := range pages {
		text := fencedCode.ReplaceAllString(readText(t, page), "")
		for _, link := range markdownLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			name, anchor, _ := strings.Cut(link[1], "#")
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, link[1])
				continue
			}
			if anchor == "" {
				continue
			}
			if _, known := anchors[target]; !known {
				anchors[target] = headingAnchors(readText(t, target))
			}
			if !slices.Contains(anchors[target], anchor) {
				t.Errorf("%s links to %s: %s has no such heading", page, link[1], target)
			}
		}
	}
}

// headingAnchors returns the anchors of a page's headings, as GitHub derives them.
func headingAnchors(text string) []string {
	var anchors []string
	for _, heading := range markdownHeading.FindAllStringSubmatch(fencedCode.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		anchors = append(anchors, strings.ReplaceAll(anchorDropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
	}
	return anchors
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
