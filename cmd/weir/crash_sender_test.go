package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// A program whose server is killed at random moments goes on hitting: in the end every hit counts
// once, though the program never asks whether the server is there.
func TestCrashSender(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	var server atomic.Pointer[string] // a restarted one has another address
	server.Store(&p.addr)
	network := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *server.Load())
	}}
	c, err := client.New("http://weir", client.Options{HTTPClient: &http.Client{Transport: network}, Durable: true, MaxPause: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.NewSender(c, client.SenderOptions{Every: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var hits uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
			for k := range 10 {
				if err := s.Hit(fmt.Sprint("k", k)); err != nil {
					t.Error(err)
					return
				}
				hits++
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range *crashRounds {
		<-time.After(rand.N(500 * time.Millisecond))
		if _, err := p.end(t, syscall.SIGKILL); err == nil {
			t.Fatal("the process ended well in spite of SIGKILL")
		}
		p = startProcess(t, dir)
		server.Store(&p.addr)
	}
	close(stop)
	<-stopped
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	stats, err := c.Stats(ctx)
	if st := s.Stats(); err != nil || stats.Hits != hits || st.Counted != hits {
		t.Errorf("%d hits, the server has %d, %+v; %v", hits, stats.Hits, st, err)
	}
	t.Logf("%d hits, %d attempts were repeated", hits, s.Stats().Repeated)
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}
