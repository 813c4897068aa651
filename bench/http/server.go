package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/weir-counter/weir/bench/proc"
)

// server is a process that takes hits, and decides, over HTTP.
type server struct {
	name    string
	process *exec.Cmd
	url     string
}

// start runs a program whose last argument is the address to listen on, and
// waits until it answers. The end of ctx ends it too.
func start(ctx context.Context, name, program string, args ...string) (*server, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, program, append(args, address)...)
	process.Stdout, process.Stderr = os.Stderr, os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("%w: build it with make build, or name it with -weir", err)
	}
	s := &server{name, process, "http://" + address}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		ready, err := answers(ctx, s.url)
		if ready {
			return s, err
		}
		select {
		case <-ctx.Done():
			s.stop()
			return nil, fmt.Errorf("%s does not answer on %s after a minute: %w", program, address, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answers tells whether a program answers, and not that it is still starting.
func answers(ctx context.Context, url string) (ready bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	return response.StatusCode != http.StatusServiceUnavailable, response.Body.Close()
}

// freeAddress is a loopback address that nothing listened on a moment ago.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// stop ends the process and waits for it.
func (s *server) stop() {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintln(os.Stderr, "http:", err)
	}
	_ = s.process.Wait() // it ended by the signal: that is no failure
}

// cost is the processor time that the server spends on a number of requests.
// It includes what the server does in the half second after, in the background.
func (s *server) cost(ctx context.Context, l load, requests int) (time.Duration, error) {
	before, err := proc.CPU(s.process.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := s.post(ctx, l, requests); err != nil {
		return 0, err
	}
	<-time.After(500 * time.Millisecond)
	after, err := proc.CPU(s.process.Process.Pid)
	return after - before, err
}

// serveFloor runs the handler that every server costs at least.
func serveFloor(address string) error {
	buffers := make(chan []byte, 16)
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var buffer []byte
		select {
		case buffer = <-buffers:
		default:
			buffer = make([]byte, 64<<10)
		}
		for {
			if _, err := r.Body.Read(buffer); err == io.EOF {
				break
			} else if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				break
			}
		}
		select {
		case buffers <- buffer:
		default:
		}
	}))
}
