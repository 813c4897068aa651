package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/bench/proc"
)

// connections send at the same time.
const connections = 4

// row is what one command cost on one server, in microseconds of processor time: of all rounds.
type row struct {
	workload, server, command string
	goal                      goal
	pipeline                  int
	costs                     []float64 // sorted
}

func (r row) median() float64 { return r.costs[len(r.costs)/2] }

func (r row) String() string {
	return fmt.Sprintf("%-30s %-14s %-36s -P %2d  %7.2f µs (%.2f to %.2f)", r.workload, r.server, r.command, r.pipeline, r.median(), r.costs[0], r.costs[len(r.costs)-1])
}

// measure measures all that is asked of a workload, in turns: what else the machine does meanwhile, it does to all.
func measure(ctx context.Context, servers map[string]*server, w workload, pipeline, commands, rounds int) (rows []row, err error) {
	requests := make([][]string, len(w.asked))
	for i, a := range w.asked {
		s := servers[a.server]
		rows = append(rows, row{workload: w.name, server: s.name, command: a.command, goal: w.goalOf(a), pipeline: pipeline})
		if a.prepare != nil {
			if err := s.prepare(ctx, w, a); err != nil {
				return nil, err
			}
		}
		requests[i] = w.pipelines(a, pipeline)
		warm := commands / max(a.fewer, 1)
		if a.fewer == 0 {
			warm = max(commands, len(requests[i])*pipeline) // makes all keys
		}
		if err := s.send(ctx, requests[i], pipeline, warm); err != nil {
			return nil, fmt.Errorf("%s on %s: %w", a.command, s.name, err)
		}
	}
	for range rounds {
		for i, a := range w.asked {
			s, n := servers[a.server], commands/max(a.fewer, 1)
			cost, err := s.cost(n, func() error { return s.send(ctx, requests[i], pipeline, n) })
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", a.command, s.name, err)
			}
			rows[i].costs = append(rows[i].costs, cost)
		}
	}
	for i := range rows {
		slices.Sort(rows[i].costs)
	}
	return rows, nil
}

// cost is the microseconds of processor time that the server spends on one of n things that do has it do.
func (s *server) cost(n int, do func() error) (float64, error) {
	before, err := proc.CPU(s.process.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	<-time.After(200 * time.Millisecond) // what the server does in the background
	after, err := proc.CPU(s.process.Process.Pid)
	return float64((after - before).Nanoseconds()) / 1000 / float64(n), err
}

// prepare sends what each key needs before.
func (s *server) prepare(ctx context.Context, w workload, a asked) error {
	var requests []string
	for _, key := range w.names() {
		for _, words := range a.prepare(key) {
			var b strings.Builder
			encode(&b, words)
			requests = append(requests, b.String())
		}
	}
	return s.pipe(ctx, requests, 1)
}

// send sends about so many commands, over all connections.
func (s *server) send(ctx context.Context, requests []string, pipeline, commands int) error {
	each := commands / pipeline / connections
	ended := make(chan error, connections)
	for c := range connections {
		go func() {
			mine := make([]string, each)
			for i := range mine {
				mine[i] = requests[(c*each+i)%len(requests)]
			}
			ended <- s.pipe(ctx, mine, pipeline)
		}()
	}
	var failed error
	for range connections {
		if err := <-ended; err != nil {
			failed = err
		}
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// pipe sends requests of so many commands on one connection, each after the replies to the one before.
func (s *server) pipe(ctx context.Context, requests []string, pipeline int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	for _, request := range requests {
		if _, err := conn.Write([]byte(request)); err != nil {
			return err
		}
		for range pipeline {
			if err := skip(in); err != nil {
				return err
			}
		}
	}
	return nil
}

// skip reads one reply. An error reply counts as a reply.
func skip(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch line[0] {
	case '-':
		return fmt.Errorf("%s", line)
	case '$', '*':
	default:
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil {
		return err
	}
	if line[0] == '$' {
		_, err := in.Discard(max(n+2, 0) * min(n+1, 1))
		return err
	}
	for range n {
		if err := skip(in); err != nil {
			return err
		}
	}
	return nil
}
