package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// server is a process that speaks RESP.
type server struct {
	name    string
	process *exec.Cmd
	address string
}

// start runs a program, by its words for an address, and waits until it takes connections. The end of
// ctx ends it too.
func start(ctx context.Context, name string, words func(address string) []string) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	args := words(address)
	process := exec.CommandContext(ctx, args[0], args[1:]...)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("%w: make build makes weir, and apt-get install redis-server the other", err)
	}
	s := &server{name, process, address}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return s, c.Close()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not answer on %s", args[0], address)
}

// redisArgs returns the arguments of a Redis that keeps nothing on disk.
func redisArgs(program string) func(address string) []string {
	return func(address string) []string {
		_, port, _ := net.SplitHostPort(address) // of a listener
		return []string{program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--loglevel", "warning"}
	}
}

// stop ends the process and waits for it.
func (s *server) stop() {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintln(os.Stderr, "listeners:", err)
	}
	_ = s.process.Wait() // it ended by the signal: that is no failure
}
