// Package dbtest runs Postgres and MariaDB for tests: real processes in a temporary directory, on
// loopback. One serves all tests of a package (Main), each with a database of its own.
package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/testsupport"
)

// Server is a database server that tests share, or a benchmark. It starts when the first of them asks for it.
type Server struct {
	// Durable has commits wait for the disk, as servers do that are in use. Tests kill processes, not
	// machines, and go without.
	Durable bool

	kind *kind

	mu      sync.Mutex
	dir     string
	port    int
	found   []string            // the programs
	owner   *syscall.Credential // the account; nil: this process's
	process *exec.Cmd
	ended   chan struct{}
	log     *os.File
	failed  error
	names   atomic.Int64
}

// kind is what differs between the servers.
type kind struct {
	name, install string
	programs      []string // to look for, also where Debian hides them
	account       string   // of the operating system, for a server that refuses root
	make, run     func(s *Server) *exec.Cmd
	driver        string
	url, dsn      func(s *Server, database string) string // for Weir, and for database/sql
}

// New servers. They do not run before the first URL.
func NewPostgres() *Server { return &Server{kind: &postgres} }

// NewMariaDB is NewPostgres of MariaDB.
func NewMariaDB() *Server { return &Server{kind: &mariadb} }

// Main runs the tests of a package, and ends servers.
func Main(m *testing.M, servers ...*Server) {
	code := m.Run()
	for _, s := range servers {
		s.Close()
	}
	os.Exit(code)
}

// URL makes a database, and returns its URL for package store.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	for _, program := range s.kind.programs {
		testsupport.Program(t, program)
	}
	url, err := s.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// SocketURL is URL of a Postgres through its socket, for processes in a network of their own.
func (s *Server) SocketURL(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(s.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = url.Values{"host": {s.dir}, "port": {u.Port()}}.Encode()
	u.Host = ""
	return u.String()
}

// Database is URL for a program that is not a test, which ends the server with Close.
func (s *Server) Database(ctx context.Context) (url string, err error) {
	if err := s.start(ctx); err != nil {
		return "", err
	}
	name := fmt.Sprintf("weir%d", s.names.Add(1))
	if err := s.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return s.kind.url(s, name), nil
}

// Pid is the process of a server that runs: its other processes are children of it.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Process.Pid
}

// Kill kills the server as kill -9 does. Restart starts it again, on the same address.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.ended
}

// Restart starts a killed server, and returns when it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.launch(t.Context())
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); { // processes of the killed one may linger
		err = s.launch(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil || s.failed != nil {
		return s.failed
	}
	s.failed = s.begin(ctx)
	return s.failed
}

func (s *Server) begin(ctx context.Context) (err error) {
	for _, program := range s.kind.programs {
		path, err := testsupport.LookProgram(program)
		if err != nil {
			return fmt.Errorf("%s is missing (as root, apt-get install %s): %w", program, s.kind.install, err)
		}
		s.found = append(s.found, path)
	}
	if s.dir, err = os.MkdirTemp("", "weir-"+s.kind.name); err != nil {
		return err
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		return err
	}
	if os.Getuid() == 0 && s.kind.account != "" {
		account, err := user.Lookup(s.kind.account)
		if err != nil {
			return err
		}
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			return err
		}
	}
	if s.port, err = freePort(); err != nil {
		return err
	}
	initial := s.command(s.kind.make)
	if out, err := initial.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", initial, err, out)
	}
	return s.launch(ctx)
}

// command makes a command that runs as the server's account, in a group of its own that ends with this process.
func (s *Server) command(build func(*Server) *exec.Cmd) *exec.Cmd {
	cmd := build(s)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.owner}
	return cmd
}

func (s *Server) launch(ctx context.Context) error {
	s.process = s.command(s.kind.run)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		defer close(ended)
		_ = s.process.Wait() // it is killed in the end
	}()
	return s.answers(ctx, ended)
}

func (s *Server) answers(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := s.exec(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ended:
			return fmt.Errorf("%s ended: %s", s.kind.name, s.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", s.kind.name, err, s.said())
		}
	}
}

func (s *Server) said() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

func (s *Server) exec(ctx context.Context, statement string) error {
	db, err := sql.Open(s.kind.driver, s.kind.dsn(s, ""))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// Close ends the server and removes its files.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL) // it may have been killed
		<-s.ended
	}
	if s.dir != "" {
		_ = s.log.Close()
		_ = os.RemoveAll(s.dir)
	}
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var postgres = kind{
	name: "postgres", install: "postgresql", programs: []string{"initdb", "postgres"}, account: "postgres", driver: "pgx",
	make: func(s *Server) *exec.Cmd {
		return exec.Command(s.found[0], "-D", s.dir+"/data", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C", "--no-sync")
	},
	run: func(s *Server) *exec.Cmd {
		return exec.Command(s.found[1], "-D", s.dir+"/data", "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+s.dir,
			"-c", "shared_buffers=32MB", "-c", "max_connections=80", "-c", "fsync="+s.ifDurable("on", "off"))
	},
	url: func(s *Server, database string) string {
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
	},
	dsn: func(s *Server, _ string) string {
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=2", s.port)
	},
}

var mariadb = kind{
	name: "mariadb", install: "mariadb-server", programs: []string{"mariadb-install-db", "mariadbd"}, driver: "mysql",
	make: func(s *Server) *exec.Cmd {
		return s.ownTemp(exec.Command(s.found[0], slices.Concat([]string{"--no-defaults", "--datadir=" + s.dir + "/data", "--auth-root-authentication-method=normal", "--skip-test-db"}, asRoot())...))
	},
	run: func(s *Server) *exec.Cmd {
		return s.ownTemp(exec.Command(s.found[1], slices.Concat([]string{
			"--no-defaults", "--datadir=" + s.dir + "/data", "--socket=" + s.dir + "/socket", "--pid-file=" + s.dir + "/pid", "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port),
			"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=" + s.ifDurable("1", "2"), "--performance-schema=OFF",
		}, asRoot())...))
	},
	url: func(s *Server, database string) string {
		return fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", s.port, database)
	},
	dsn: func(s *Server, _ string) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/", s.port) },
}

// ownTemp gives a program its own directory for temporary files: a starting MariaDB removes the files of others from a shared one.
func (s *Server) ownTemp(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir)
	return cmd
}

func (s *Server) ifDurable(yes, no string) string {
	if s.Durable {
		return yes
	}
	return no
}

// asRoot are the arguments of MariaDB where tests are run by root.
func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}
