package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/testsupport"
)

var suites = flag.Bool("suites", false, "run the tests of other projects, which are downloaded, on Weir and on Redis")

// suite is the tests of another project, as its module or its package has them.
type suite struct {
	name     string
	module   string   // of Go
	folder   string   // of the module
	isolated bool     // each test has a server of its own: FLUSHDB of Weir leaves what keys have used of limits
	install  []string // packages of npm, of which the first has the tests
	file     string   // of the first package

	weir string // how many pass, of how many
}

// TestSuites runs the tests of other projects against both servers. make suites prints a table.
func TestSuites(t *testing.T) {
	if !*suites {
		t.Skip("make suites runs it: it downloads other projects")
	}
	for _, s := range []suite{
		{name: "go-redis/redis_rate v10.0.1", module: "github.com/go-redis/redis_rate/v10@v10.0.1", isolated: true, weir: "6 of 6"},
		{name: "ulule/limiter v3.11.2, `drivers/store/redis`", module: "github.com/ulule/limiter/v3@v3.11.2", folder: "drivers/store/redis", weir: "3 of 3"},
		{name: "throttled v2.15.0, `store/goredisstore.v9`", module: "github.com/throttled/throttled/v2@v2.15.0", folder: "store/goredisstore.v9", weir: "1 of 1"},
		{name: "@fastify/rate-limit 11.2.0, `redis-rate-limit.test.js`", install: []string{"@fastify/rate-limit@11.2.0", "fastify@5", "ioredis@5"}, file: "test/redis-rate-limit.test.js", weir: "16 of 16"},
	} {
		run := s.goTests
		if s.module == "" {
			run = s.nodeTests
		}
		onRedis, onWeir := run(t, oracle), run(t, open)
		t.Logf("| %s | %s | %s |", s.name, onRedis, onWeir)
		if onWeir != s.weir {
			t.Errorf("%s: want %s on Weir", s.name, s.weir)
		}
	}
}

// anyRedis is where projects expect Redis.
var anyRedis = regexp.MustCompile(`(localhost|127\.0\.0\.1)?:6379`)

// goTests runs the tests of a copy of a module.
func (s *suite) goTests(t *testing.T, start func(*testing.T) string) string {
	names := []string{"."}
	if s.isolated {
		list := s.command(t, s.copy(t, ""), "-list", ".")
		names = regexp.MustCompile(`(?m)^(Test|Example)\S+$`).FindAllString(string(list), -1)
	}
	var passed, all int
	for _, name := range names {
		for line := range bytes.Lines(s.command(t, s.copy(t, start(t)), "-count=1", "-json", "-run", "^"+name)) {
			var event struct{ Action, Test string }
			if json.Unmarshal(line, &event) != nil || event.Test == "" || strings.Contains(event.Test, "/") || s.isolated && event.Test != name {
				continue
			}
			switch event.Action {
			case "pass":
				passed++
				all++
			case "fail", "skip":
				all++
			}
		}
	}
	return strconv.Itoa(passed) + " of " + strconv.Itoa(all)
}

// copy is the folder of a copy of a module, which finds Redis at an address.
func (s *suite) copy(t *testing.T, address string) string {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(moduleDir(t, s.module))); err != nil {
		t.Fatal(err)
	}
	adapt(t, dir, func(text string) string {
		return strings.ReplaceAll(anyRedis.ReplaceAllString(text, address), "redisTestDB     = 1", "redisTestDB = 0") // Weir has one database
	})
	return filepath.Join(dir, s.folder)
}

// command runs go test in a folder.
func (s *suite) command(t *testing.T, dir string, args ...string) []byte {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-mod=mod"}, args...)...)
	cmd.Dir = dir
	return s.output(t, cmd)
}

// nodeTests runs the tests that a package ships.
func (s *suite) nodeTests(t *testing.T, start func(*testing.T) string) string {
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), testsupport.Program(t, "npm"), append([]string{"install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"}, s.install...)...)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install %q: %v\n%s", s.install, err, out)
	}
	name := s.install[0][:strings.LastIndexByte(s.install[0], '@')]
	pkg := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
	_, port, _ := strings.Cut(start(t), ":")
	adapt(t, filepath.Join(pkg, "test"), func(text string) string {
		return strings.ReplaceAll(text, "host: REDIS_HOST", "host: REDIS_HOST, port: "+port)
	})
	cmd := exec.CommandContext(t.Context(), testsupport.Program(t, "node"), "--test", "--test-reporter=tap", s.file)
	cmd.Dir = pkg
	out := string(s.output(t, cmd))
	count := func(what string) string {
		found := regexp.MustCompile(`(?m)^# ` + what + ` (\d+)$`).FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("node --test says no %q:\n%s", what, out)
		}
		return found[1]
	}
	return count("pass") + " of " + count("tests")
}

// output is what a program writes. That tests failed is no failure to run them.
func (s *suite) output(t *testing.T, cmd *exec.Cmd) []byte {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out
}

// adapt changes the files below a folder, which are copies.
func adapt(t *testing.T, dir string, change func(string) string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil || d.IsDir() { // modules are read-only
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(change(string(text))), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
