package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-counter/weir/client"
)

// historyEvery is how often Weir writes history here; by default it is 5 s.
const historyEvery = time.Second

// patience bounds the start of a server, and how long history takes to have all.
const patience = time.Minute

// throughWeir measures hits over HTTP until the database has all of them in the tables of history. Each request is
// answered once its hits are on disk.
func throughWeir(ctx context.Context, cfg settings, d *database, l load) (r row, err error) {
	url, db, err := d.make(ctx, 1)
	if err != nil {
		return r, err
	}
	defer db.Close()
	c, server, err := startWeir(ctx, cfg, true, "--history-url", url, "--history-every", historyEvery.String())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	r = row{database: d.name, way: "(g) Weir, requests of 1,000 hits", load: l}
	stop, err := r.measured(d, server.cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	var hits atomic.Uint64
	if err := send(ctx, cfg, l, batch, func(_ int, keys []int) error {
		receipt, err := c.Send(ctx, hitsOf(keys))
		hits.Add(receipt.Counted)
		return err
	}); err != nil {
		return r, err
	}
	r.hits = hits.Load()
	if err := eventually(ctx, func() (bool, error) { return caughtUp(ctx, c) == nil, nil }); err != nil {
		return r, err
	}
	if err := stop(); err != nil {
		return r, err
	}
	return r, r.check(ctx, db)
}

// caughtUp waits for some seconds until history has all hits.
func caughtUp(ctx context.Context, c *client.Client) error {
	_, err := c.Series(ctx, client.SeriesQuery{Key: name(0), Align: "day", Fresh: 10 * time.Second})
	return err
}

// weirServer is a server that runs.
type weirServer struct {
	cmd *exec.Cmd
	log *os.File
}

// startWeir starts one with an empty data directory, and returns a client of it, whose hits are durable or not.
func startWeir(ctx context.Context, cfg settings, durable bool, args ...string) (c *client.Client, s *weirServer, err error) {
	address, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp(cfg.scratch, "weir-*")
	if err != nil {
		return nil, nil, err
	}
	s = &weirServer{}
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, nil, err
	}
	s.cmd = exec.CommandContext(ctx, cfg.weir, append([]string{"serve", "--http", address, "--data", filepath.Join(dir, "data")}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return nil, nil, err
	}
	if c, err = client.New("http://"+address, client.Options{Durable: durable}); err == nil {
		err = eventually(ctx, func() (bool, error) {
			_, err := c.Stats(ctx)
			return err == nil, nil
		})
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("weir serve did not start: %w: %s", err, tail(s.log.Name())), s.stop())
	}
	return c, s, nil
}

// stop ends it.
func (s *weirServer) stop() error {
	defer s.log.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended, which Wait tells
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("weir serve: %w: %s", err, tail(s.log.Name()))
	}
	return nil
}

// hitsOf are keys as hits.
func hitsOf(keys []int) []client.Hit {
	list := make([]client.Hit, len(keys))
	for i, k := range keys {
		list[i] = client.Hit{Key: name(k), N: 1}
	}
	return list
}

// eventually asks until the answer is yes.
func eventually(ctx context.Context, is func() (bool, error)) error {
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		yes, err := is()
		switch {
		case err != nil || yes:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return errors.New("it takes too long")
		}
	}
}

func freeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// tail is the end of a log.
func tail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	return string(text[max(0, len(text)-2000):])
}
