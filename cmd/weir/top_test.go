package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/testsupport"
)

// terminal is a tmux with one window of 80 columns and 24 lines.
type terminal struct {
	*testing.T
	socket string
}

// inTerminal runs this test's binary as weir in a terminal.
func inTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	testsupport.Program(t, "tmux")
	dir, err := os.MkdirTemp("", "weir-tmux") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() // it may have ended
		os.RemoveAll(dir)
	})
	command := append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-e", asWeir + "=1", "-e", "TZ=UTC", "--", "sh", "-c", `trap : INT; "$0" "$@"; echo left with $?; exec cat`, os.Args[0]}, args...)
	term.tmux(command...)
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// shows waits for a text on the screen.
func (term *terminal) shows(text string) {
	term.Helper()
	screen := ""
	defer func() {
		if term.Failed() {
			term.Logf("it shows\n%s", screen)
		}
	}()
	transporttest.Eventually(term.T, fmt.Sprintf("the screen shows %q", text), func() bool {
		screen = term.tmux("capture-pane", "-p")
		return strings.Contains(screen, text)
	})
}

// Commands with --every in a real terminal: each answer takes the place of the one before, until an interrupt.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(policies, []byte("limits:\n- {name: login, keys: \"login:*\", limit: 1, per: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, "--ephemeral", "--policy", policies)
	for key, n := range map[string]string{"url:/home": "100", "url:/cart": "40", "user:\x1b[2Jbad": "7"} {
		if code, _, stderr := weirOf(t, nil, "", "hit", "--server", server, key, n); code != exitOK {
			t.Fatal(stderr)
		}
	}
	for range 3 {
		weirOf(t, nil, "", "allow", "--server", server, "login:bob") // the first passes
	}
	term := inTerminal(t, "top", "--server", server, "--every", "50ms")
	term.shows("url:/home")
	term.shows(`user:\x1b[2Jbad`)
	if code, _, stderr := weirOf(t, nil, "", "hit", "--server", server, "url:/new", "500"); code != exitOK {
		t.Fatal(stderr)
	}
	term.shows("HITS IN 5m  KEY\n500         url:/new") // at the top of the screen, in place of the list before
	term.tmux("send-keys", "C-c")
	term.shows("left with 0")
	limits := inTerminal(t, "limits", "--server", server, "--every", "50ms")
	limits.shows("login")

	counts := inTerminal(t, "count", "url:/home", "--server", server, "--every", "50ms")
	counts.shows("url:/home  5m")

	gone := inTerminal(t, "top", "--server", "127.0.0.1:1", "--every", "1s")
	gone.shows("is a server running?")
	gone.shows("left with 1")
}

// With --every, each answer says what it lacks.
func TestCountEveryIncomplete(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"count", "rate"} {
		ctx, interrupt := context.WithCancel(t.Context())
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			late := ""
			if asked++; asked > 1 {
				late = `,"late":[{"node":"n2","since":900}]`
			}
			if asked > 3 {
				interrupt()
			}
			fmt.Fprintf(w, `{"key":"a","window_s":300,"at":1000,"lower":1,"estimate":1,"upper":1,"exact":true,"as_of":1000%s}`, late)
		}))
		defer s.Close()
		var out, status bytes.Buffer
		if code := run(ctx, &cli.World{Stdout: &out, Stderr: &status, Env: lookup(nil)}, []string{command, "a", "--server", s.URL, "--every", "1ms"}); code != exitOK {
			t.Errorf("weir %s left with %d: %s", command, code, &status)
		}
		if got := strings.Count(status.String(), "incomplete: hits of n2"); got != 2 {
			t.Errorf("weir %s warned %d times of 2: %s", command, got, &status)
		}
	}
}
