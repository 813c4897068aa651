package resp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/policy"
)

// start is the second at which the clocks of a test stand.
var start = time.Unix(1_769_860_800, 0)

// testServer is a server on a loopback port with a real engine.
type testServer struct {
	testing.TB
	*Server
	engine *engine.Engine
	now    *atomic.Int64 // milliseconds, of counters
	passed *atomic.Int64 // of the engine's clock since start
	stop   func() error
}

func newTestServer(t testing.TB, cfg Config, policies string) *testServer {
	t.Helper()
	return newLockedServer(t, cfg, policies, nil)
}

func newLockedServer(t testing.TB, cfg Config, policies string, tokens *access.Tokens) *testServer {
	t.Helper()
	return newServerAmong(t, cfg, policies, tokens, admit.Cluster{})
}

// newServerAmong is one of several nodes or regions, as far as its policies know.
func newServerAmong(t testing.TB, cfg Config, policies string, tokens *access.Tokens, among admit.Cluster) *testServer {
	t.Helper()
	return newServerOf(t, engine.Config{}, cfg, policies, tokens, among)
}

func newServerOf(t testing.TB, config engine.Config, cfg Config, policies string, tokens *access.Tokens, among admit.Cluster) *testServer {
	t.Helper()
	passed := new(atomic.Int64)
	config.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	backend := service.Backend{Engine: e, Tokens: tokens}
	if policies != "" {
		set, err := policy.Parse("policies.yaml", []byte(policies))
		if err != nil {
			t.Fatal(err)
		}
		if backend.Policies, err = admit.NewClusterLive(e, set, among); err != nil {
			t.Fatal(err)
		}
	}
	answering, err := service.New(backend, service.Config{Logger: log, MaxBatch: 100})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr, cfg.Logger = "127.0.0.1:0", log
	s, err := New(answering, cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := new(atomic.Int64)
	now.Store(start.UnixMilli())
	s.clock = func() time.Time { return time.UnixMilli(now.Load()) }
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	ts := &testServer{TB: t, Server: s, engine: e, now: now, passed: passed}
	ts.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = ts.stop() })
	return ts
}

// testClient sends commands and reads replies as text.
type testClient struct {
	testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func (s *testServer) dial() *testClient {
	s.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	return &testClient{s.TB, conn, bufio.NewReader(conn)}
}

func (c *testClient) send(text string) {
	c.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.Fatal(err)
	}
}

// do sends a command, inline or, if it has quotes, as an array, and returns its reply.
func (c *testClient) do(command string) string {
	c.Helper()
	if strings.Contains(command, `"`) {
		command = array(c.TB, command)
	}
	c.send(command + "\r\n")
	return c.reply()
}

// array is a command as an array, whose arguments may be texts of Go in quotes.
func array(t testing.TB, command string) string {
	t.Helper()
	var b strings.Builder
	n := 0
	for rest := command; rest != ""; n++ {
		arg, after, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			after = strings.TrimPrefix(rest[len(quoted):], " ")
			if arg, err = strconv.Unquote(quoted); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
		rest = after
	}
	return fmt.Sprintf("*%d\r\n%s", n, strings.TrimSuffix(b.String(), "\r\n"))
}

// denialID is that of a denial, which is another one each time.
var denialID = regexp.MustCompile(` "[0-9a-z]{13}"`)

// says checks replies: a line each of `command -> reply`.
func (c *testClient) says(transcript string) {
	c.Helper()
	for line := range strings.Lines(transcript) {
		command, want, found := strings.Cut(strings.TrimSpace(line), " -> ")
		if !found {
			continue
		}
		if got := denialID.ReplaceAllString(c.do(command), ` "ID"`); got != want {
			c.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

func (c *testClient) reply() string {
	c.Helper()
	text, err := readReply(c.in)
	if err != nil {
		c.Fatal(err)
	}
	return text
}

// readReply reads a reply as text: a status and a number as they are, an error with its minus, a
// text in quotes, [a b] and {a: b}.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':', ',', '#':
		return rest, nil
	case '-':
		return "-" + rest, nil
	case '_':
		return "null", nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return "", fmt.Errorf("%q", line)
	}
	switch {
	case n < 0:
		return "nil", nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(in, text)
		return strconv.Quote(string(text[:n])), err
	case kind == '%':
		n *= 2
	}
	parts := make([]string, n)
	for i := range parts {
		if parts[i], err = readReply(in); err != nil {
			return "", err
		}
	}
	if kind == '%' {
		var pairs []string
		for i := 0; i < n; i += 2 {
			pairs = append(pairs, strings.Trim(parts[i], `"`)+": "+parts[i+1])
		}
		return "{" + strings.Join(pairs, " ") + "}", nil
	}
	return "[" + strings.Join(parts, " ") + "]", nil
}
