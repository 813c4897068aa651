package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/internal/cli"
)

// settled runs cli.ResolveSettings on the flags of weir serve and returns what came out.
func settled(t *testing.T, file string, env map[string]string, args ...string) (*cobra.Command, cli.Sources, error) {
	t.Helper()
	cmd := newServe(&cli.World{Env: lookup(env)})
	if file != "" {
		name := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", name)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	from, err := cli.ResolveSettings(cmd.Flags(), lookup(env))
	return cmd, from, err
}

func TestPrecedence(t *testing.T) {
	file := "retention: 1d # a comment\nmax-ahead: 10s\nmemory: 64MiB\nmax-conns: 77\n"
	env := map[string]string{"WEIR_RETENTION": "2d", "WEIR_MAX_AHEAD": "20s", "WEIR_CLOCK": "event", "WEIR_LOG_LEVEL": ""}
	cmd, from, err := settled(t, file, env, "--retention", "3d")
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string][2]string{
		"retention":  {"3d", "--retention"},
		"max-ahead":  {"20s", "WEIR_MAX_AHEAD"},
		"clock":      {"event", "WEIR_CLOCK"},
		"memory":     {"64MiB", "weir.yaml:3: memory"},
		"max-conns":  {"77", "weir.yaml:4: max-conns"},
		"log-level":  {"info", ""},
		"log-format": {"text", ""},
	} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want[0] || !strings.HasSuffix(from[flag], want[1]) {
			t.Errorf("--%s is %s from %q; want %s from %q", flag, got, from[flag], want[0], want[1])
		}
	}
}

func TestSettingsFile(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"empty", "", ""},
		{"comments", "# nothing\n---\n# at all\n", ""},
		{"quoted", "http: \"127.0.0.1:0\"\nmemory: '1GiB'\n", ""},
		{"number", "retention: 3600\nmax-conns: 10\n", ""},
		{"wrong value", "\nretention: soon\n", `:2: retention: "soon" is not a duration`},
		{"unknown", "http: x:1\nretention: 1d\nretenton: 1d\n", ":3: retenton: unknown field, did you mean retention?"},
		{"underscore", "max_ahead: 1s", ":1: max_ahead: unknown field, did you mean max-ahead?"},
		{"far from all", "wombat: 1", "wombat: unknown field; there are http, "},
		{"config", "config: x", "config: unknown field"},
		{"twice", "memory: 1GiB\nmemory: 2GiB\n", "memory"},
		{"null", "memory:\n", ":1: memory: it is empty: write a text"},
		{"nested", "memory:\n  least: 1GiB\n", ":2: memory: a mapping: write a text"},
		{"not a mapping", "- memory\n", ":1: a list: write fields"},
		{"not YAML", "a: [", "not YAML"},
		{"huge", strings.Repeat("#", cli.MaxSettingsBytes+1), "is larger than 1MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := settled(t, test.file+"\n", nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// true and false are words that people write in other ways.
func TestTrueOrFalse(t *testing.T) {
	_, _, err := settled(t, "", map[string]string{"WEIR_EPHEMERAL": "maybe"})
	if err == nil || err.Error() != `WEIR_EPHEMERAL: "maybe": it must be true or false` {
		t.Error(err)
	}
	_, _, err = settled(t, "ephemeral: yes\n", nil)
	if err == nil || !strings.HasSuffix(err.Error(), `:1: ephemeral: "yes": it must be true or false`) {
		t.Error(err)
	}
}

func TestUnknownVariables(t *testing.T) {
	var errs bytes.Buffer
	w := &cli.World{Stdout: io.Discard, Stderr: &errs, Env: lookup(nil), Environ: []string{
		"WEIR_MAX_AHED=1s", "WEIR_WOMBAT=1", "WEIR_RETENTION=1d", "WEIR_SERVER=x", "WEIR_EMPTY=", "WEIRD=1",
	}}
	if code := run(t.Context(), w, []string{"version"}); code != exitOK {
		t.Errorf("exit %d", code)
	}
	want := "weir: warning: unknown variable WEIR_MAX_AHED: did you mean WEIR_MAX_AHEAD?\n" +
		"weir: warning: unknown variable WEIR_WOMBAT: no flag has it\n"
	if errs.String() != want {
		t.Errorf("got\n%swant\n%s", errs.String(), want)
	}
}

func TestBlame(t *testing.T) {
	from := cli.Sources{"max-ahead": "WEIR_MAX_AHEAD", "HTTP.Addr": "weir.yaml:1: http"}
	for field, want := range map[string]string{
		"MaxAhead": "WEIR_MAX_AHEAD: wrong", "HTTP.Addr": "weir.yaml:1: http: wrong", "Memory": "wrong",
	} {
		if got := from.Blame(field, errWrong).Error(); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

type wrong struct{}

func (wrong) Error() string { return "wrong" }

var errWrong = wrong{}

// Every flag of every command can be set by its variable.
func TestEveryFlagHasAVariable(t *testing.T) {
	cmd, _, err := settled(t, "", map[string]string{
		"WEIR_HTTP": "127.0.0.1:1", "WEIR_STOP_TIMEOUT": "3s", "WEIR_DRAIN_DELAY": "0", "WEIR_MAX_IN_FLIGHT": "9",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cmd.Flags().GetString("http"); err != nil || got != "127.0.0.1:1" {
		t.Errorf("http is %q, %v", got, err)
	}
	if got := cmd.Flags().Lookup("stop-timeout").Value.(cli.Value[time.Duration]); *got.To != 3*time.Second {
		t.Errorf("stop-timeout is %v", *got.To)
	}
	if _, _, err := settled(t, "", map[string]string{"WEIR_MAX_IN_FLIGHT": "few"}); err == nil || err.Error() != `WEIR_MAX_IN_FLIGHT: "few" is not a whole number` {
		t.Error(err)
	}
}
