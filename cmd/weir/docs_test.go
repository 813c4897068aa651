package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/testprogram"
)

// The commands of these pages print what stands below them as comments.
func TestDocs(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		page     string
		commands int // lines that are no comments
		serve    []string
	}{
		{page: "docs/limits.md", commands: 7},
		{page: "docs/policies.md", commands: 4},
		{page: "docs/quotas.md", commands: 14},
	} {
		t.Run(p.page, func(t *testing.T) {
			t.Parallel()
			text := docsPage(t, p.page)
			policies := strings.Replace(fenced(t, text, "yaml")[0], "ttl: 30s", "ttl: 5s", 1) // a new server waits for one
			path, _ := policyFile(t, policies)
			if code, stdout, stderr := weirOf(t, nil, "", "limits", "check", path); code != exitOK {
				t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
			}
			server := startServer(t, append(p.serve, "--policy", path)...)
			commands := 0
			for _, script := range fenced(t, text, "sh") {
				commands += runScript(t, script, strings.NewReplacer("localhost:8080", server), "WEIR_SERVER="+server)
			}
			if commands != p.commands {
				t.Errorf("%d commands were run", commands)
			}
		})
	}
}

func docsPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fenced returns the blocks of a page that are in a language. A page has at least one.
func fenced(t *testing.T, page, language string) []string {
	t.Helper()
	var blocks []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("no block of %s", language)
	}
	return blocks
}

// runScript runs a block of commands with bash, in a directory whose bin/weir is this program, and compares what
// they print with the comments below them, in which ... stands for any text. It returns the number of commands.
func runScript(t *testing.T, script string, here *strings.Replacer, env ...string) (commands int) {
	t.Helper()
	testprogram.Path(t, "curl")
	bash := testprogram.Path(t, "bash")
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	program := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asWeir, os.Args[0])
	if err := os.WriteFile(filepath.Join(bin, "weir"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	var steps strings.Builder
	var wants [][]string
	for line := range strings.Lines(script) {
		want, isOutput := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# ")
		switch {
		case isOutput && len(wants) > 0:
			last := &wants[len(wants)-1]
			*last = append(*last, want)
		case strings.TrimSpace(line) == "" || isOutput || strings.HasPrefix(line, "make "):
		default:
			if len(wants) == 0 || len(wants[len(wants)-1]) > 0 {
				fmt.Fprintf(&steps, "printf '%s'\n", nextStep)
				wants = append(wants, nil)
			}
			steps.WriteString(here.Replace(line))
			commands++
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, "-c", steps.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "PATH="+bin+":"+os.Getenv("PATH"), "WEIR_TIMEOUT="+transporttest.Patience.String())...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)[ \r]+$`).ReplaceAllString(string(out), "")
	outputs := strings.Split(text, nextStep)[1:]
	for i, lines := range wants {
		for _, want := range lines {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `.*`)
			if i >= len(outputs) || !regexp.MustCompile("(?m)^"+pattern+"$").MatchString(outputs[i]) {
				t.Errorf("no line %s in\n%s", want, text)
			}
		}
	}
	return commands
}

// nextStep is printed before the commands whose output is compared with one group of comments.
const nextStep = "~ ~ ~"
