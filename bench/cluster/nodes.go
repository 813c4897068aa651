package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weir-counter/weir/client"
)

// node is a weir serve.
type node struct {
	process *exec.Cmd
	client  *client.Client
	url     string
}

// startTime is long: three servers begin on a machine that does other things too.
const startTime = time.Minute

// start starts nodes, and returns when all take hits.
func (b *bench) start(size int, flushEvery time.Duration) (nodes []*node, err error) {
	addrs, err := b.unused(2 * size)
	if err != nil {
		return nil, err
	}
	http, peers := addrs[:size], addrs[size:]
	for i := range size {
		args := []string{"serve", "--log-level", "error", "--http", http[i], "--flush-every", flushEvery.String(),
			"--data", filepath.Join(b.dir, fmt.Sprintf("%d-%v-%d", size, flushEvery, i))}
		if size > 1 {
			args = append(args, "--cluster", "bench", "--node", fmt.Sprint("n", i+1), "--cluster-addr", peers[i], "--peers", strings.Join(peers, ","))
		}
		c, err := client.New(http[i], client.Options{Retries: -1})
		if err != nil {
			return nodes, err
		}
		process := exec.CommandContext(b.ctx, b.weir, args...)
		if err := process.Start(); err != nil {
			return nodes, fmt.Errorf("%w: build it with make build, or name it with -weir", err)
		}
		nodes = append(nodes, &node{process, c, "http://" + http[i]})
	}
	for _, n := range nodes {
		for end := time.Now().Add(startTime); ; <-time.After(50 * time.Millisecond) {
			if _, err := n.client.Stats(b.ctx); err == nil {
				break
			} else if time.Now().After(end) || b.ctx.Err() != nil {
				return nodes, err
			}
		}
	}
	return nodes, nil
}

func stopAll(nodes []*node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.process.Process.Signal(syscall.SIGTERM))
	}
	for _, n := range nodes {
		errs = append(errs, n.process.Wait())
	}
	return errors.Join(errs...)
}

// unused are addresses below the ports that systems give to connections.
func (b *bench) unused(n int) (addrs []string, err error) {
	for tries := 0; len(addrs) < n && tries < 1000; tries++ {
		l, err := new(net.ListenConfig).Listen(b.ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err != nil {
			continue
		}
		defer l.Close() // all at the end, so that each is another
		addrs = append(addrs, l.Addr().String())
	}
	if len(addrs) < n {
		return nil, errors.New("no unused ports")
	}
	return addrs, nil
}

// written is how many bytes of journal all nodes have written, and in how many
// flushes.
func written(ctx context.Context, nodes []*node) (bytes, flushes uint64, err error) {
	for _, n := range nodes {
		stats, err := n.client.Stats(ctx)
		if err != nil {
			return 0, 0, err
		}
		bytes, flushes = bytes+stats.Journal.Bytes, flushes+stats.Journal.Flushes
	}
	return bytes, flushes, nil
}

// cpu is the time that all nodes have spent on processors.
func cpu(nodes []*node, read func(pid int) (time.Duration, error)) (all time.Duration, err error) {
	for _, n := range nodes {
		one, err := read(n.process.Process.Pid)
		if err != nil {
			return 0, err
		}
		all += one
	}
	return all, nil
}
