package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// weirOf runs one command line in this process. One that would serve though the test
// wants it to be refused is stopped in the end. Unless env or args say otherwise, it waits for an answer
// as long as a machine with other work may need: the second that weir allow waits by default is for users.
func weirOf(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*transporttest.Patience)
	defer cancel()
	code = run(ctx, &cli.World{
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Env: func(name string) (string, bool) {
			if value, ok := env[name]; ok || name != "WEIR_TIMEOUT" {
				return value, ok
			}
			return transporttest.Patience.String(), true
		},
	}, args)
	return code, out.String(), errs.String()
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// startServer runs `weir serve` until the test ends, and gives its address.
func startServer(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	addr := make(chan string, 1)
	done := make(chan int, 1)
	var log bytes.Buffer
	if !slices.Contains(args, "--ephemeral") {
		args = append([]string{"--data", t.TempDir()}, args...)
	}
	go func() {
		w := &cli.World{Stdout: io.Discard, Stderr: &log, Env: lookup(nil), Serving: func(a string) { addr <- a }}
		done <- run(ctx, w, slices.Concat([]string{"serve", "--http", "127.0.0.1:0"}, patient, args))
	}()
	stopped := func() {
		stop()
		if code := <-done; code != exitOK {
			t.Errorf("serve ended with %d:\n%s", code, log.String())
		}
	}
	select {
	case a := <-addr:
		t.Cleanup(stopped)
		return a
	case code := <-done:
		stop()
		t.Fatalf("serve ended with %d:\n%s", code, log.String())
		return ""
	}
}

const day = "01/Dec/2025:10:00:0"

func accessLog() string {
	var b strings.Builder
	for i := range 6 {
		fmt.Fprintf(&b, "10.0.0.%d - - [%s%d +0100] \"GET /p%d HTTP/1.1\" 200 5 \"-\" \"a\"\n", i%2, day, i, i%3)
	}
	return b.String()
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--clock", "event", "--retention", "52w", "--log-format", "json")
	env := map[string]string{"WEIR_SERVER": server}
	const at = "2025-12-01T12:00:00Z"
	for _, step := range []struct {
		args string
		want string // in stdout
	}{
		{"hit url:/home 3 --at " + at, "3 counted\n"},
		{"hit url:/home --at 2025-12-01T11:59:00Z", "1 counted, late: the key has a newer hit\n"},
		{"hit a 2 --at 1764590400 --json", `"counted": 2`},
		{"hit b --durable --at 1764590400", "1 counted, on disk\n"},
		{"count url:/home -w 1s -w 5m", "KEY        WINDOW  HITS\nurl:/home  1s      3\nurl:/home  5m      4\n"},
		{"count", "*    5m      7\n"},
		{"count a --window 10s --json", `"estimate": 2`},
		{"rate url:/home --window 1m", "url:/home  1m      0.050       3\n"},
		{"top -w 1h", "HITS IN 1h  KEY\n4           url:/home\n2           a\n"},
		{"top -w 1h -n 1 --prefix a --json", `"key": "a"`},
		{"keys", "a\nb\nurl:/home\n"},
		{"keys --prefix u --json", `"url:/home"`},
		{"stats", "hits           7\n"},
		{"stats --json", `"hits": 7`},
		{"hit c --at 1764590400", "1 counted"},
		{"hit d --at 1764590400", "1 counted"},
		{"delete b", "deleted b\n"},
		{"delete c d", "deleted c\ndeleted d\n"},
		{"delete a --json", "\"deleted\": [\n    \"a\"\n  ]"},
		{"top --prefix none", "no key of none... had hits in the last 5m\n"},
		{"count k -w 5s min", "min  5s      0\n"},
		{"count -w 5 -- min", "min  5s      0\n"},
		{"keys --limit 1 --after a", "url:/home\n"},
		{"--version", "weir "},
		{"series url:/home --from 2025-12-01T11:58:00Z --to " + at, "2025-12-01T11:59:00Z  1  #############\n2025-12-01T12:00:00Z  3  ########################################\n"},
	} {
		code, stdout, stderr := weirOf(t, env, "", strings.Fields(step.args)...)
		if code != exitOK || !strings.Contains(stdout, step.want) {
			t.Errorf("weir %s: exit %d\n%s%s\nwant %s", step.args, code, stdout, stderr, step.want)
		}
		if strings.Contains(step.args, "--json") && !json.Valid([]byte(stdout)) {
			t.Errorf("weir %s: not JSON: %s", step.args, stdout)
		}
	}

	code, _, stderr := weirOf(t, env, "", "hit", "*")
	if code != exitFailure || !strings.Contains(stderr, "nothing_counted") || !strings.Contains(stderr, "counts all hits") {
		t.Errorf("hit *: exit %d, %s", code, stderr)
	}
}

func TestReplayToServer(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--retention", "1000000000")
	code, stdout, stderr := weirOf(t, nil, accessLog(), "replay", "-", "--to", server, "--key", "url:{path}", "--compress", "gzip")
	if code != exitOK || !strings.Contains(stdout, "6 counted, ") {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = weirOf(t, nil, "", "count", "--server", server, "url:/p1", "*", "--at", "2025-12-01T09:00:05Z", "-w", "5s")
	if code != exitOK || !strings.Contains(stdout, "url:/p1  5s      2") || !strings.Contains(stdout, "*        5s      5") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestReplayReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(accessLog()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := weirOf(t, nil, "", "replay", name, "--key", "status:{status}", "--key", "host:{host}")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"6 in 6 lines", "6     100.0%  status:200", "3     50.0%  host:10.0.0.0",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if code, stdout, _ = weirOf(t, nil, "", "replay", "-"); code != exitOK || !strings.Contains(stdout, "warning    the log is empty") {
		t.Errorf("an empty log: exit %d, %s", code, stdout)
	}
	code, stdout, _ = weirOf(t, nil, "", "replay", name, "--json")
	var report struct{ Lines int }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != exitOK || report.Lines != 6 {
		t.Errorf("exit %d, %v, %s", code, err, stdout)
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, test := range []struct {
		args string
		code int
		want string // in stderr
	}{
		{"version", exitOK, ""},
		{"", exitOK, ""},
		{"--help", exitOK, ""},
		{"completion bash", exitOK, ""},
		{"__complete replay --format ", exitOK, ""},
		{"nothing", exitUsage, `unknown command "nothing"`},
		{"count --nothing", exitUsage, "unknown flag: --nothing"},
		{"count --server ftp://x", exitUsage, "--server: "},
		{"count --server 127.0.0.1:1 --timeout 1s", exitFailure, "connection refused (tried 3 times): is a server running? start one with weir serve"},
		{"series", exitUsage, "weir series needs KEY"},
		{"series a b", exitUsage, `weir series does not take "b"`},
		{"--version", exitOK, ""},
		{"hit", exitUsage, "weir hit needs KEY: write weir hit KEY [N]"},
		{"export", exitUsage, "weir export needs FILE|-: write weir export FILE|-"},
		{"backup", exitUsage, "weir backup needs FILE|-: write weir backup FILE|-"},
		{"restore a b", exitUsage, `weir restore does not take "b"`},
		{"cluster remove", exitUsage, "weir cluster remove needs NODE: write weir cluster remove NODE"},
		{"hit a -5", exitUsage, "wrong N -5: it must be a whole number, 1 or more"},
		{"allow a -1", exitUsage, "wrong N -1: it must be a whole number, 1 or more"},
		{"series -2", exitUsage, "-2 looks like a flag: a KEY that begins with - stands after --"},
		{"serve --htp :1", exitUsage, "unknown flag: --htp, did you mean --http?"},
		{"--htp :1", exitUsage, "unknown flag: --htp, did you mean weir serve --http?"},
		{"--zzzzzz", exitUsage, "unknown flag: --zzzzzz"},
		{"top -q", exitUsage, "unknown shorthand flag: 'q' in -q"},
		{"srve", exitUsage, `unknown command "srve" for "weir", did you mean serve?`},
		{"limits chek", exitUsage, `unknown command "chek" for "weir limits", did you mean check?`},
		{"top a", exitUsage, `weir top does not take "a": write weir top`},
		{"delete", exitUsage, "weir delete needs KEY: write weir delete KEY..."},
		{"hit a 0", exitUsage, `wrong N "0": it must be a whole number, 1 or more`},
		{"delete --prefix=", exitUsage, "--prefix is empty (an unset shell variable?)"},
		{"token list --tokens " + dir + "/none", exitFailure, "or create it with 'weir token create'"},
		{"top -n 0", exitUsage, "must be more than 0"},
		{"top --n 5", exitUsage, "unknown flag: --n, did you mean -n?"},
		{"serve --retention soon", exitUsage, "is not a duration: write 90s"},
		{"serve --retention 0", exitUsage, "--retention"},
		{"serve --ephemeral=maybe", exitUsage, `--ephemeral: "maybe": it must be true or false`},
		{"serve --clock sundial", exitUsage, "it must be wall or event"},
		{"serve --memory much", exitUsage, "is not a size"},
		{"serve --http nowhere", exitUsage, "--http"},
		{"serve --max-in-flight 99999999", exitUsage, "--max-in-flight"},
		{"serve --ephemeral --insecure --http 256.0.0.1:1", exitFailure, "listen"},
		{"serve --ephemeral --http 127.0.0.1:99999", exitUsage, "--http: 127.0.0.1:99999 is not an address: write host:port with a port from 0 to 65535"},
		{"serve --ephemeral --http 127.0.0.1:80a", exitUsage, "--http: 127.0.0.1:80a is not an address: write host:port"},
		{"serve --ephemeral --http unix:x", exitUsage, "--http: unix:x is not the address of a Unix socket: write unix:/path"},
		{"serve --ephemeral --rls 127.0.0.1:x", exitUsage, "--rls: 127.0.0.1:x is not an address: write host:port"},
		{"serve --ephemeral --memory 9999TiB", exitUsage, "Memory (--memory) of 9999TiB and LimitMemory (--limit-memory) of 256MiB are more than the "},
		{"serve --ephemeral --retention 100y", exitUsage, "must be whole seconds from 1s to 1000000000s (31.7 years)"},
		{"serve --ephemeral --insecure --http 192.0.2.1:80", exitFailure, "this machine has no such address: choose one of its own with --http"},
		{"serve --ephemeral --history-url sqlite:x", exitUsage, "--history-url and --ephemeral: history is made of the journal"},
		{"serve --ephemeral --allow-origin foo", exitUsage, `--allow-origin: AllowOrigins has "foo": write scheme://host`},
		{"serve --ephemeral --allow-host http://x", exitUsage, `--allow-host: AllowHosts has "http://x": write a name without a scheme`},
		{"serve --demo --region eu", exitUsage, "--region and --demo: the demo is a single open server in memory"},
		{"serve --demo --history", exitUsage, "--history and --demo: the demo is a single open server in memory"},
		{"serve --demo --history-url sqlite:x", exitUsage, "--history-url and --demo: the demo is a single open server in memory"},
		{"serve --ephemeral --region eu", exitUsage, "--region and --ephemeral: regions count together by their journals"},
		{"serve --ephemeral --data " + dir, exitUsage, "--data and --ephemeral: an ephemeral server keeps no data"},
		{"serve --flush-every 2h --data " + dir + "/new", exitUsage, "--flush-every: FlushEvery of 2h0m0s: must be 1ms to 1m"},
		{"serve --max-disk 1MiB --data " + dir + "/new", exitUsage, "--max-disk: "},
		{"serve --max-disk 16MiB --data " + dir + "/new", exitUsage, "Raise --max-disk to at least 57MiB; the least that any settings need is 57MiB"},
		{"serve --max-disk 16MiB --memory 256MiB --data " + dir + "/new", exitUsage, "(--max-disk) of 16MiB is too little for a Memory (--memory) of 256MiB"},
		{"serve --max-disk 512MiB --memory 256MiB --data " + dir + "/new", exitUsage, "lower the two to at most 146MiB together"},
		{"serve --snapshot-every 1KiB --data " + dir + "/new", exitUsage, "--snapshot-every: "},
		{"serve --data=", exitUsage, "--data: it is empty: name a directory"},
		{"serve --durable-timeout 59s", exitUsage, "WriteTimeout"},
		{"replay - --durable", exitUsage, "--durable needs --to"},
		{"serve --config " + dir + "/none", exitUsage, "settings file"},
		{"replay", exitUsage, "weir replay needs FILE: write weir replay FILE..."},
		{"replay " + dir + "/none", exitFailure, "no such file"},
		{"replay " + dir, exitFailure, "is a directory"},
		{"replay - --key x:{", exitUsage, "--key"},
		{"replay " + file("clf", accessLog()) + " --key url:{pth}", exitUsage, "--key: key template url:{pth}: a clf log has no field {pth}"},
		{"replay --follow " + file("follow.gz", "\x1f\x8b\x08\x00"), exitUsage, "follow.gz is compressed (gzip) and cannot be followed"},
		{"replay - --from-end", exitUsage, "needs --follow"},
		{"replay - --follow", exitUsage, "--follow"},
		{"replay " + file("bad", "rubbish\n"), exitFailure, "no line fits a format: clf"},
		{"replay " + file("cut.gz", "\x1f\x8b\x08\x00"), exitFailure, "cut.gz: the gzip data is cut short"},
		{"replay " + file("empty", ""), exitOK, ""},
	} {
		code, stdout, stderr := weirOf(t, nil, "", strings.Fields(test.args)...)
		if code == exitUsage && stdout != "" {
			t.Errorf("weir %s: printed %s", test.args, stdout)
		}
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("weir %s: exit %d, %q; want %d, %q", test.args, code, stderr, test.code, test.want)
		}
	}
}

// A port in use is found before the data directory is made.
func TestServePortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "new")
	code, _, stderr := weirOf(t, nil, "", "serve", "--http", l.Addr().String(), "--data", dir)
	if code != exitFailure || !strings.Contains(stderr, "choose another address with --http") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// Who asks a server without TLS by https:// is informed.
func TestAskedByTLS(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--ephemeral")
	code, _, stderr := weirOf(t, nil, "", "count", "a", "--server", "https://"+server)
	if code != exitFailure || !strings.Contains(stderr, "the server does not use TLS: write http://") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// JSON logs have durations that a person can read, and a clean stop is the last
// thing that is logged.
func TestServeLogs(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var log bytes.Buffer
	w := &cli.World{Stdout: io.Discard, Stderr: &log, Env: lookup(nil), Serving: func(string) { stop() }}
	if code := run(ctx, w, []string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--log-format", "json"}); code != exitOK {
		t.Fatalf("exit %d\n%s", code, log.String())
	}
	all := strings.Split(strings.TrimSpace(log.String()), "\n")
	if last := all[len(all)-1]; !strings.Contains(last, `"msg":"stopped"`) || !strings.Contains(all[len(all)-2], "all hits are on disk") {
		t.Errorf("the end of the log: %s", log.String())
	}
	if !strings.Contains(log.String(), `"msg":"memory","counters":"1GiB","limits":"256MiB","usual":"1.4GiB","process":"2.7GiB"`) {
		t.Errorf("what the process may need is not logged: %s", log.String())
	}
	if !strings.Contains(log.String(), `"flush_every":"100ms"`) {
		t.Errorf("durations are not text: %s", log.String())
	}
}

// lines tells of each line that is written.
type lines struct{ to chan string }

func (l lines) Write(b []byte) (int, error) {
	select {
	case l.to <- string(b):
	default: // nobody waits for this one
	}
	return len(b), nil
}

func TestReplayFollow(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(accessLog()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithTimeout(context.Background(), time.Minute)
	defer interrupt()
	status := lines{make(chan string, 1)}
	var out bytes.Buffer
	done := make(chan int)
	go func() {
		done <- run(ctx, &cli.World{Stdout: &out, Stderr: status, Env: lookup(nil)}, []string{"replay", "--follow", "--every", "10ms", name})
	}()
	wait := func(want string) {
		for s := range status.to {
			if strings.Contains(s, want) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("no %q", want)
			}
		}
	}
	wait("6 hits")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(accessLog()); err != nil {
		t.Fatal(err)
	}
	wait("12 hits")
	interrupt()
	if code := <-done; code != exitOK || !strings.Contains(out.String(), "12 in 12 lines") {
		t.Errorf("exit %d\n%s", code, out.String())
	}
}
