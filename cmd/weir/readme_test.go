package main

import (
	"bytes"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The commands of the README, docs/limits.md and docs/quotas.md about limits, with their policy files,
// print what these pages say.
func TestReadmeLimits(t *testing.T) {
	t.Parallel()
	t.Run("README", func(t *testing.T) { limitsPage(t, "../../README.md", "\n## Rate limits\n", 3) })
	t.Run("docs/limits.md", func(t *testing.T) { limitsPage(t, "../../docs/limits.md", "# Rate limits: a tour\n", 7) })
	t.Run("docs/quotas.md", func(t *testing.T) {
		limitsPage(t, "../../docs/quotas.md", "# Support for limits: reset, grant, refund\n", 7, "## Reserve and settle\n")
	})
}

// limitsPage runs the commands of one section of a page, and then of further ones: in the first there are as many as
// number says.
func limitsPage(t *testing.T, page, heading string, number int, further ...string) {
	readme, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	section := sectionOf(string(readme), heading)
	path, _ := policyFile(t, block(t, section, "yaml"))
	if code, stdout, stderr := weirOf(t, nil, "", "limits", "check", path); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	server := startServer(t, "--policy", path)
	if commands := runBlock(t, server, block(t, section, "sh")); commands != number {
		t.Errorf("%d commands", commands)
	}
	for _, heading := range further {
		runBlock(t, server, block(t, sectionOf(string(readme), heading), "sh"))
	}
}

// sectionOf is what stands between a heading and the next one.
func sectionOf(page, heading string) string {
	_, section, _ := strings.Cut(page, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// runBlock runs commands, which print the lines that stand below them as comments, and tells how many there are.
func runBlock(t *testing.T, server, lines string) (commands int) {
	t.Helper()
	var output string
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		want, isOutput := strings.CutPrefix(line, "# ")
		if !isOutput {
			output = readmeCommand(t, server, line)
			commands++
			continue
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `.*`)
		if !regexp.MustCompile("(?m)^" + pattern + "$").MatchString(output) {
			t.Errorf("no line %s in\n%s", want, output)
		}
	}
	return commands
}

// block is the first block of code of a kind.
func block(t *testing.T, text, kind string) string {
	t.Helper()
	_, text, found := strings.Cut(text, "```"+kind+"\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatalf("no block of %s", kind)
	}
	return text
}

var curlPost = regexp.MustCompile(`^curl -si? (?:-X POST )?'?localhost:8080(/v1/[^ ']+)'?(?: --json '([^']+)')?`)

var spaces = regexp.MustCompile(`(?m) +$`) // that tables pad their last column with

// readmeCommand runs one command of the README and returns what it prints.
func readmeCommand(t *testing.T, server, line string) string {
	t.Helper()
	if args, ok := strings.CutPrefix(line, "bin/weir "); ok {
		args, _, _ = strings.Cut(args, " # ")
		args, echoed, _ := strings.Cut(args, " && echo ")
		code, stdout, stderr := weirOf(t, map[string]string{"WEIR_SERVER": server}, "", strings.Fields(args)...)
		if code != exitOK {
			t.Errorf("%s: exit %d\n%s%s", line, code, stdout, stderr)
		}
		return spaces.ReplaceAllString(stdout, "") + strings.TrimSpace(echoed)
	}
	post := curlPost.FindStringSubmatch(line)
	if post == nil {
		t.Fatalf("not a command that is known: %s", line)
	}
	resp, err := http.Post("http://"+server+post[1], "application/json", strings.NewReader(post[2]))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text.String(), "\r\n", "\n")
}
