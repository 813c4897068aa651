package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weir-counter/weir/bench/proc"
)

// peer is a server, how it is started, and how it is asked.
type peer struct {
	name, asked string
	start       func(ctx context.Context) (*server, error)
	dial        func(ctx context.Context, address string) (asker, error)
	missing     bool
}

// limitsFile has the limits of all workloads in the format of envoyproxy/ratelimit, which Weir reads too.
const limitsFile = `domain: bench
descriptors:
- key: one
  rate_limit: {unit: second, requests_per_unit: 1000000}
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100}
- key: over
  rate_limit: {unit: minute, requests_per_unit: 1}
`

func (b *bench) peers() []peer {
	weir := func(flags ...string) func(ctx context.Context) (*server, error) {
		return func(ctx context.Context) (*server, error) {
			at, err := unused(ctx, 1)
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile(filepath.Join(b.scratch, "limits.yaml"), []byte(limitsFile), 0o600); err != nil {
				return nil, err
			}
			args := append([]string{"serve", "--log-level", "error", "--ephemeral", "--memory", "1GiB", "--limit-memory", "1GiB"}, flags...)
			args = append(args, at[0])
			if !slices.Contains(flags, "--http") {
				args = append(args, "--http", "127.0.0.1:0")
			}
			return start(ctx, at[0], nil, append([]string{b.weir}, args...))
		}
	}
	redis := func(ctx context.Context) (*server, error) {
		at, err := unused(ctx, 1)
		if err != nil {
			return nil, err
		}
		return start(ctx, at[0], nil, b.redisArgs(at[0]))
	}
	return []peer{
		{name: "Weir, RESP", asked: "`ALLOW`, a window limit", start: weir("--resp"), dial: dialRESP(askWeir)},
		{name: "Weir, gRPC", asked: "Envoy's `ShouldRateLimit`", start: weir("--rls-config", filepath.Join(b.scratch, "limits.yaml"), "--rls"), dial: dialEnvoy},
		{name: "Weir, HTTP", asked: "`POST /v1/allow`, a window limit", start: weir("--http"), dial: dialHTTP},
		{name: "Redis, GCRA", asked: "`EVALSHA`, one time per key", start: redis, dial: dialRESP(askScript(gcraScript))},
		{name: "Redis, log", asked: "`EVALSHA`, a sorted set per key", start: redis, dial: dialRESP(askScript(logScript))},
		{name: "Redis, counter", asked: "`EVALSHA`, `INCR` and `PEXPIRE`", start: redis, dial: dialRESP(askScript(counterScript))},
		{name: "envoyproxy/ratelimit", asked: "Envoy's `ShouldRateLimit`, with Redis", start: b.startRatelimit, dial: dialEnvoy},
		{name: "gubernator", asked: "gRPC `GetRateLimits`, leaky bucket", start: b.startGubernator, dial: dialGubernator},
	}
}

func (b *bench) redisArgs(address string) []string {
	_, port, _ := net.SplitHostPort(address) // of a listener
	return []string{b.redis, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--loglevel", "warning"}
}

func (b *bench) startRatelimit(ctx context.Context) (*server, error) {
	at, err := unused(ctx, 4)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(b.scratch, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(limitsFile), 0o600); err != nil {
		return nil, err
	}
	redis, err := start(ctx, at[0], nil, b.redisArgs(at[0]))
	if err != nil {
		return nil, err
	}
	port := func(i int) string { _, p, _ := net.SplitHostPort(at[i]); return p }
	s, err := start(ctx, at[1], []string{
		"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + at[0], "BACKEND_TYPE=redis",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port(1), "HOST=127.0.0.1", "PORT=" + port(2), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port(3),
		"RUNTIME_ROOT=" + b.scratch, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}, []string{b.ratelimit})
	if err != nil {
		return nil, errors.Join(err, redis.stop())
	}
	s.processes = append(s.processes, redis.processes...)
	return s, nil
}

func (b *bench) startGubernator(ctx context.Context) (*server, error) {
	at, err := unused(ctx, 3)
	if err != nil {
		return nil, err
	}
	return start(ctx, at[0], []string{
		"GUBER_GRPC_ADDRESS=" + at[0], "GUBER_HTTP_ADDRESS=" + at[1], "GUBER_ADVERTISE_ADDRESS=" + at[0],
		"GUBER_PEER_DISCOVERY_TYPE=member-list", "GUBER_MEMBERLIST_ADDRESS=" + at[2], "GUBER_MEMBERLIST_BIND_ADDRESS=" + at[2],
		"GUBER_MEMBERLIST_KNOWN_NODES=" + at[2],
		"GUBER_CACHE_SIZE=2000000", "GUBER_LOG_LEVEL=error", "OTEL_TRACES_EXPORTER=none",
	}, []string{b.gubernator})
}

// server is the processes that answer at one address.
type server struct {
	address   string
	processes []*exec.Cmd
}

// start starts a program and waits until it takes connections at the address.
func start(ctx context.Context, address string, env, args []string) (*server, error) {
	if strings.Contains(args[0], "/") {
		if _, err := os.Stat(args[0]); err != nil {
			return nil, err
		}
	}
	process := exec.CommandContext(ctx, args[0], args[1:]...)
	process.Env = append(os.Environ(), env...)
	var said tail
	process.Stderr = &said
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{address, []*exec.Cmd{process}}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return s, c.Close()
		}
		<-time.After(20 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("%s does not answer on %s", args[0], address), s.stop(), errors.New(string(said)))
}

// tail keeps the end of what a program writes.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 1000
	all := append(*t, p...)
	*t = all[max(0, len(all)-most):]
	return len(p), nil
}

// stop ends the processes and waits for them.
func (s *server) stop() error {
	var errs []error
	for _, p := range s.processes {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		_ = p.Wait() // it ended by the signal: that is no failure
	}
	return errors.Join(errs...)
}

// cpu is the processor time of all processes.
func (s *server) cpu() (sum time.Duration, err error) {
	for _, p := range s.processes {
		spent, err := proc.CPU(p.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += spent
	}
	return sum, nil
}

// resident is the resident memory of all processes, in bytes.
func (s *server) resident() (sum int64, err error) {
	for _, p := range s.processes {
		n, err := proc.ResidentOf(p.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// unused are addresses on loopback that nobody listens on.
func unused(ctx context.Context, n int) (addresses []string, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that each is another
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
