package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/weir-counter/weir/internal/testsupport"
)

// oracle starts a redis-server to compare with.
func oracle(t *testing.T) (address string) {
	t.Helper()
	s, err := start(t.Context(), "redis", redisArgs(testsupport.Program(t, "redis-server")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s.address
}

// runNode runs a program of the folder npm, which fails when something is not as it should be.
func runNode(t *testing.T, script string, args ...string) {
	t.Helper()
	path := testsupport.Program(t, "node")
	testsupport.File(t, "npm/node_modules/ioredis")
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, append([]string{script}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "npm", &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("node %s: %v\n%s", script, err, out.String())
	}
	t.Log(out.String())
}

func TestIoredis(t *testing.T) {
	t.Parallel()
	runNode(t, "ioredis.js", open(t))
}

// rate-limiter-flexible decides the same on Weir and on Redis.
func TestRateLimiterFlexible(t *testing.T) {
	t.Parallel()
	runNode(t, "flexible.js", open(t), oracle(t))
}

// So do express-rate-limit, @fastify/rate-limit, async-ratelimiter and koa-ratelimit.
func TestLimitersOfNode(t *testing.T) {
	t.Parallel()
	runNode(t, "limiters.js", open(t), oracle(t))
}

// So does Python's limits.
func TestPythonLimits(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "limits")
	out, err := exec.CommandContext(t.Context(), python, "limits_compare.py", open(t), oracle(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(string(out))
}

// So does @upstash/ratelimit.
func TestUpstashRatelimit(t *testing.T) {
	t.Parallel()
	runNode(t, "upstash.js", open(t), oracle(t))
}

// pythonWith returns the path of the Python that has a module. A test ends here if there is none.
func pythonWith(t *testing.T, module string) string {
	t.Helper()
	const debian = "/usr/bin/python3" // apt-get installs modules for it
	if exec.CommandContext(t.Context(), debian, "-c", "import "+module).Run() != nil {
		testsupport.Missing(t, "Python's "+module)
	}
	return debian
}

// moduleDir is where the source of a Go module is, without making it one that this module needs.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	var found struct{ Dir, Error string }
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil || found.Error != "" {
		t.Fatalf("go mod download %s: %v %s", module, err, found.Error)
	}
	return found.Dir
}
