package weir_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	proseWarnings = flag.Bool("prose.warnings", false, "log sentences of more than 25 words")
	proseComments = flag.String("prose.comments", "", "log long sentences in comments of Go code below this directory")
)

const (
	longSentence    = 25 // words; a warning
	longestSentence = 35 // words; an error
)

// avoidedWords are words that the documentation does not use, with a replacement.
var avoidedWords = []struct {
	word    *regexp.Regexp
	instead string
}{
	{avoided(`doors?`), "listener, protocol"},
	{avoided(`rooms?`), "space, package"},
	{avoided(`told`), "reported, acknowledged"},
	{avoided(`lends?|lent|lending`), "grant, quota lease"},
	{avoided(`mend(s|ed|ing)?`), "fix, repair"},
	{avoided(`hear(s|d|ing)? of`), "learn about"},
	{avoided(`beside`), "next to, in addition to"},
	{avoided(`paces?`), "renewal interval"},
	{avoided(`apart by`), "separated by"},
	{avoided(`(that|those) of`), "the noun itself"},
	// US spelling
	{avoided(`(behavi|col|fav|flav|hon|lab|neighb)our\w*`), "-or"},
	{avoided(`(author|character|custom|final|general|initial|maxim|memor|minim|normal|optim|organ|priorit|recogn|serial|standard|summar|synchron|util|visual)is(e[ds]?|ing|ation)`), "-ize"},
	{avoided(`analys(e[ds]?|ing)`), "analyze"},
	{avoided(`(centre|metre|theatre|fibre)s?`), "-er"},
	{avoided(`(defen|licen|offen)ce[ds]?`), "-se"},
	{avoided(`(cancel|label|model|signal|travel)l(ed|ing)`), "one l"},
	{avoided(`artefacts?|catalogues?|grey|judgement|programmes?|whilst`), "US spelling"},
}

func avoided(word string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + word + `)\b`) }

// The English of the documentation: sentences of at most 35 words, the words of the glossary, US spelling.
func TestProse(t *testing.T) {
	t.Parallel()
	var pages []string
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	warnings := 0
	for _, page := range pages {
		if ruler := wideRuler.FindString(readText(t, page)); ruler != "" {
			t.Errorf("%s: write a table's ruler as |---|---|, not %s", page, ruler)
		}
		for _, text := range markdownProse(readText(t, page)) {
			faults, long := proseFaults(text)
			for _, fault := range faults {
				t.Errorf("%s: %s", page, fault)
			}
			warnings += len(long)
			if *proseWarnings {
				for _, sentence := range long {
					t.Logf("%s: %s", page, sentence)
				}
			}
		}
	}
	t.Logf("%d sentences of more than %d words; -args -prose.warnings lists them", warnings, longSentence)
	checkComments(t, *proseComments)
}

// proseFaults returns what is wrong in a paragraph, and its long sentences.
func proseFaults(text string) (faults, long []string) {
	for _, a := range avoidedWords {
		for _, word := range a.word.FindAllString(text, -1) {
			faults = append(faults, fmt.Sprintf("%q: write %s, in: %s", word, a.instead, text))
		}
	}
	for _, sentence := range sentences(text) {
		switch n := wordCount(sentence); {
		case n > longestSentence:
			faults = append(faults, fmt.Sprintf("%d words in one sentence: %s", n, sentence))
		case n > longSentence:
			long = append(long, fmt.Sprintf("%d words: %s", n, sentence))
		}
	}
	return faults, long
}

var (
	sentenceEnd  = regexp.MustCompile(`[.!?]["')*_]*\s+`)
	htmlComment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	linkOrImage  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	wideRuler    = regexp.MustCompile(`(?m)^\| :?-{2,}.*`)
	listItem     = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)
	abbreviation = regexp.MustCompile(`(?i)(\be\.g|\bi\.e|\bvs|\betc|\.\.)\.\s+$`)
)

// sentences splits a paragraph at a full stop that a capital letter, a digit, code or emphasis follows.
func sentences(text string) []string {
	var all []string
	begin := 0
	for _, end := range sentenceEnd.FindAllStringIndex(text, -1) {
		if end[1] == len(text) || abbreviation.MatchString(text[begin:end[1]]) {
			continue
		}
		if next := []rune(text[end[1]:])[0]; unicode.IsLower(next) {
			continue
		}
		all = append(all, strings.TrimSpace(text[begin:end[1]]))
		begin = end[1]
	}
	return append(all, strings.TrimSpace(text[begin:]))
}

func wordCount(sentence string) (n int) {
	for _, word := range strings.Fields(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// markdownProse returns the paragraphs, list items, headings and table cells of a page, without code.
func markdownProse(page string) []string {
	page = fencedCode.ReplaceAllString(htmlComment.ReplaceAllString(page, ""), "\n")
	var all []string
	open := false // the last text continues on the next line
	add := func(line string, continues bool) {
		line = linkOrImage.ReplaceAllString(codeSpan.ReplaceAllString(strings.TrimSpace(line), "X"), "$1")
		if line == "" {
			open = false
			return
		}
		if open && continues {
			all[len(all)-1] += " " + line
		} else {
			all = append(all, line)
		}
		open = true
	}
	for line := range strings.Lines(page) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "|"):
			for cell := range strings.SplitSeq(strings.ReplaceAll(codeSpan.ReplaceAllString(trimmed, "X"), `\|`, "/"), "|") {
				add(cell, false)
			}
			open = false
		case strings.HasPrefix(trimmed, "#"):
			add(strings.TrimLeft(trimmed, "# "), false)
			open = false
		case strings.HasPrefix(line, "    ") && !open: // indented code
		case listItem.MatchString(line):
			add(listItem.ReplaceAllString(line, ""), false)
		default:
			add(trimmed, true)
		}
	}
	return all
}

// avoidedNames are the names that no declaration in Go has: a name says what a value is.
var avoidedNames = strings.Fields("of how apart odd lack whose twice enough alone told lend")

// avoidedInGo are the words that no Go file has, in a name, a comment or a message.
var avoidedInGo = avoided(`told|lends?|lent|doors?|rooms?|mend(s|ed)?`)

// Names and words of Go code are those of the field, in tests too.
func TestGoWords(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || path == "prose_test.go" { // which quotes them
			return err
		}
		for _, word := range avoidedInGo.FindAllString(path+"\n"+readText(t, path), -1) {
			t.Errorf("%s: %q: say it in terms of docs/glossary.md", path, word)
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, is := n.(*ast.Ident); is && slices.Contains(avoidedNames, name.Name) {
				t.Errorf("%s: %s is no name: say what the value is, such as owner, key or limit", positions.Position(name.Pos()), name.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkComments reports what is wrong in the comments of Go code. It logs long sentences below list.
func checkComments(t *testing.T, list string) {
	warnings := 0
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			wrong, long := groupFaults(group)
			warnings += len(long)
			for _, fault := range wrong {
				t.Errorf("%s: %s", positions.Position(group.Pos()), fault)
			}
			if list != "" && strings.HasPrefix(path, list) {
				for _, sentence := range long {
					t.Logf("%s: %s", positions.Position(group.Pos()), sentence)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("comments of Go code: %d sentences of %d to %d words; -args -prose.comments DIRECTORY lists them", warnings, longSentence+1, longestSentence)
}

// groupFaults returns the findings of a comment. Directives such as //go:embed are no prose.
func groupFaults(group *ast.CommentGroup) (faults, long []string) {
	for _, paragraph := range markdownProse(strings.ReplaceAll(group.Text(), "\n\t", "\n    ")) {
		f, l := proseFaults(paragraph)
		faults, long = append(faults, f...), append(long, l...)
	}
	return faults, long
}

func TestProseFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		page         string
		faults, long int
	}{
		{"A node counts. It answers at once.\n", 0, 0},
		{"The `door` of [the room](x.md#door) is shut.\n", 1, 0},
		{"```\ndoor\n```\n\n    door\n\n<!-- door -->\n", 0, 0},
		{"The colour of " + strings.Repeat("a word ", 12) + "\nends.\n", 1, 1},
		{"- " + strings.Repeat("one two ", 18) + "\n- short, e.g. This\n", 1, 0},
		{"| cell that of | cell those of |\n|---|---|\n", 2, 0},
		{strings.Repeat("one two three four. Five six ", 10) + "\n", 0, 0},
	} {
		faults, long := 0, 0
		for _, text := range markdownProse(test.page) {
			f, l := proseFaults(text)
			faults, long = faults+len(f), long+len(l)
		}
		if faults != test.faults || long != test.long {
			t.Errorf("%q: %d faults and %d long sentences, want %d and %d", test.page, faults, long, test.faults, test.long)
		}
	}
}
