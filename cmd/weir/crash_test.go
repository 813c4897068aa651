package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// asWeir, set in the environment, makes this test's binary be weir.
const asWeir = "TEST_BE_WEIR"

func TestMain(m *testing.M) {
	if os.Getenv(asWeir) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is a weir serve of its own.
type process struct {
	*exec.Cmd
	addr      string
	listening chan string // addr, once it is not ready yet
	serving   chan string // addr, or closed if it ended before
	log       chan string // what it logged, once it has ended
	logged    string      // the same, to be read once ended is closed
	ended     chan struct{}
}

func startProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := launch(t, dir, args...)
	if p.addr = <-p.serving; p.addr == "" {
		t.Fatalf("weir serve did not start:\n%s", <-p.log)
	}
	return p
}

// patient are settings of a node alone, which is to be well on a disk that stands still for ten seconds.
var patient = []string{"--durable-timeout", "25s", "--stop-timeout", "1m"}

// launch starts a process and does not wait until it serves.
func launch(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return launchWithin(t, nil, dir, slices.Concat(patient, args)...)
}

// launchWithin has a command start it, which must become the process: signals are
// sent to that.
func launchWithin(t *testing.T, command []string, dir string, args ...string) *process {
	t.Helper()
	command = slices.Concat(command, []string{os.Args[0], "serve", "--http", "127.0.0.1:0", "--data", dir, "--log-format", "json"}, args)
	p := &process{
		Cmd:       exec.Command(command[0], command[1:]...),
		log:       make(chan string, 1),
		listening: make(chan string, 1),
		serving:   make(chan string, 1),
		ended:     make(chan struct{}),
	}
	p.Env = append(os.Environ(), asWeir+"=1")
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		if <-p.ended; t.Failed() {
			t.Logf("the end of the log of process %d, %s:\n%s", p.Process.Pid, strings.Join(args, " "), lastLines(p.logged))
		}
	})
	go func() {
		var log strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			var record struct{ Msg, Addr string }
			if json.Unmarshal(lines.Bytes(), &record) != nil {
				continue
			}
			switch record.Msg {
			case "listening; not ready yet":
				p.listening <- record.Addr
			case "serving":
				p.serving <- record.Addr
			}
		}
		close(p.listening)
		close(p.serving)
		p.logged = log.String()
		p.log <- p.logged
		close(p.ended)
	}()
	return p
}

// lastLines are as much of a log as a failure of a test shows: of records that only repeat their message, the first.
func lastLines(log string) string {
	var lines []string
	before := ""
	for line := range strings.Lines(log) {
		var record struct{ Msg string }
		if json.Unmarshal([]byte(line), &record) != nil || record.Msg != before {
			lines = append(lines, line)
		}
		before = record.Msg
	}
	return strings.Join(lines[max(0, len(lines)-150):], "")
}

// end sends a signal and waits for the end.
func (p *process) end(t *testing.T, signal os.Signal) (log string, err error) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	log = <-p.log
	return log, p.Wait()
}

// hit posts one hit under an idempotency key, as often as its caller likes.
func (p *process) hit(key, id string, durable bool) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		fmt.Sprintf("http://%s/v1/hits?durable=%v", p.addr, durable), strings.NewReader(key))
	if err != nil {
		return err
	}
	if id != "" {
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Counted uint64
		Durable bool
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK || answer.Counted != 1 || answer.Durable != durable {
		return fmt.Errorf("answer %d: %+v, %w", resp.StatusCode, answer, err)
	}
	return nil
}

// count is a key's count of the last hour. It waits until nobody is late: on a busy
// machine a node may be called so for a moment.
func (p *process) count(t *testing.T, key string) (n uint64) {
	t.Helper()
	c, err := client.New(p.addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "an exact count of "+key, func() bool {
		counts, err := c.Count(t.Context(), client.CountQuery{Keys: []string{key}, Windows: []time.Duration{time.Hour}})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		n = counts[0].Estimate
		return counts[0].Exact
	})
	return n
}

// A process that is killed in the middle of work comes back with every hit that
// it had acknowledged as durable, once, and no hit more than was sent. What it
// did not acknowledge counts once when it is sent again.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	const senders, least = 4, 100
	var all atomic.Int64 // acknowledged durable hits
	var acknowledged, plain [senders]uint64
	var wg sync.WaitGroup
	killed := make(chan struct{})
	for s := range senders {
		wg.Go(func() {
			for {
				if p.hit(fmt.Sprint("plain", s), "", false) != nil {
					break
				}
				plain[s]++
				if p.hit(fmt.Sprint("durable", s), fmt.Sprintf("%d-%d", s, acknowledged[s]), true) != nil {
					break
				}
				acknowledged[s]++
				if all.Add(1) == least {
					close(killed)
				}
			}
		})
	}
	<-killed
	if _, err := p.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("the process ended well in spite of SIGKILL")
	}
	wg.Wait()

	p = startProcess(t, dir)
	for s, n := range acknowledged {
		key := fmt.Sprint("durable", s)
		if got := p.count(t, key); got != n && got != n+1 {
			t.Errorf("%s: %d are counted, %d were acknowledged and one more was sent", key, got, n)
		}
		for i := range n + 1 { // a client that lost all answers
			if err := p.hit(key, fmt.Sprintf("%d-%d", s, i), true); err != nil {
				t.Errorf("%s again: %v", key, err)
			}
		}
		if got := p.count(t, key); got != n+1 {
			t.Errorf("%s: %d are counted after all was sent again, want %d", key, got, n+1)
		}
		if got := p.count(t, fmt.Sprint("plain", s)); got > plain[s]+1 {
			t.Errorf("plain%d: %d are counted, %d were sent", s, got, plain[s]+1)
		}
	}

	total := p.count(t, "*")
	log, err := p.end(t, syscall.SIGTERM)
	if err != nil || !strings.Contains(log, "all hits are on disk") {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
	p = startProcess(t, dir)
	if got := p.count(t, "*"); got != total {
		t.Errorf("%d are counted after a clean stop, want %d", got, total)
	}
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}

// A stop that is asked for before the server listens is a clean one.
func TestStopBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	var log strings.Builder
	code := run(ctx, &cli.World{Stderr: &log, Env: lookup(nil)}, []string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir()})
	if code != exitOK {
		t.Errorf("exit %d\n%s", code, log.String())
	}
}
