package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/weir-counter/weir/resp"
	"github.com/weir-counter/weir/rls"
	"github.com/weir-counter/weir/server"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/statsd"
)

// doors are how clients reach a node, each by one protocol: HTTP, and RESP, gRPC for Envoy and StatsD where they are wanted.
type doors struct {
	cfg       server.Config
	respCfg   resp.Config
	rlsCfg    rls.Config
	statsdCfg statsd.Config
	opening   *server.Opening // nil: nobody listens before the node is ready
	http      *server.Server

	// nil as opening is, or the door is not wanted
	respOpening   *resp.Opening
	rlsOpening    *rls.Opening
	statsdOpening *statsd.Opening
	// nil: the door is not wanted
	resp   *resp.Server
	rls    *rls.Server
	statsd *statsd.Server
}

// listen has the doors listen, and say phase until they are open, as far as their protocols can. It comes before the data
// directory is opened: a start that fails for an address has changed nothing there.
func (d *doors) listen(phase func() server.Phase, parts *parts) error {
	opening, err := server.Open(d.cfg, phase)
	if err != nil {
		return addressHint(err, "http")
	}
	parts.opened(func(context.Context) error { return opening.Close() })
	d.opening = opening
	if err := d.listenRESP(phase, parts); err != nil {
		return err
	}
	if d.rlsCfg.Addr != "" {
		if d.rlsOpening, err = rls.Open(d.rlsCfg); err != nil {
			return addressHint(err, "rls")
		}
		parts.opened(func(context.Context) error { return d.rlsOpening.Close() })
	}
	if d.statsdCfg.Addr != "" {
		if d.statsdOpening, err = statsd.Open(d.statsdCfg); err != nil {
			return addressHint(err, "statsd")
		}
		parts.opened(func(context.Context) error { return d.statsdOpening.Close() })
	}
	return nil
}

func (d *doors) listenRESP(phase func() server.Phase, parts *parts) (err error) {
	if d.respCfg.Addr == "" {
		return nil
	}
	d.respOpening, err = resp.Open(d.respCfg, func() string {
		is := phase()
		return is.Status + ": " + is.Detail
	})
	if err != nil {
		return addressHint(err, "resp")
	}
	parts.opened(func(context.Context) error { return d.respOpening.Close() })
	return nil
}

// open has the doors answer for s.
func (d *doors) open(s *service.Service, parts *parts) (err error) {
	if d.http, err = server.New(s, d.cfg); err != nil {
		return err
	}
	d.http.TakeOver(d.opening)
	if err := d.openRESP(s, parts); err != nil {
		return err
	}
	if err := d.openRLS(s, parts); err != nil {
		return err
	}
	if err := d.openStatsD(s, parts); err != nil {
		return err
	}
	return addressHint(d.http.Serve(), "http")
}

// openRESP has the RESP door answer where it listens, or listen: clients that connect wait for run.
func (d *doors) openRESP(s *service.Service, parts *parts) (err error) {
	if d.respCfg.Addr == "" {
		return nil
	}
	if d.resp, err = resp.New(s, d.respCfg); err != nil {
		return err
	}
	s.Attach(d.resp)
	parts.opened(func(context.Context) error { return d.resp.Close() })
	if d.respOpening != nil {
		d.resp.TakeOver(d.respOpening)
	}
	return addressHint(d.resp.Listen(), "resp")
}

// openRLS reads its limits, and has its door answer where it listens, or listen: clients that connect wait for run.
func (d *doors) openRLS(s *service.Service, parts *parts) (err error) {
	if d.rlsCfg.Addr == "" {
		return nil
	}
	if d.rls, err = rls.New(s, d.rlsCfg); err != nil {
		return err
	}
	s.Attach(d.rls)
	parts.opened(func(context.Context) error { return d.rls.Close() })
	if d.rlsOpening != nil {
		d.rls.TakeOver(d.rlsOpening)
	}
	return addressHint(d.rls.Listen(), "rls")
}

// openStatsD has the StatsD door count what comes where it listens, or listen: what is sent waits for run.
func (d *doors) openStatsD(s *service.Service, parts *parts) (err error) {
	if d.statsdCfg.Addr == "" {
		return nil
	}
	if d.statsd, err = statsd.New(s, d.statsdCfg); err != nil {
		return err
	}
	s.Attach(d.statsd)
	parts.opened(func(context.Context) error { return d.statsd.Close() })
	if d.statsdOpening != nil {
		d.statsd.TakeOver(d.statsdOpening)
	}
	return addressHint(d.statsd.Listen(), "statsd")
}

// run answers until ctx ends, or a door fails, and then lets requests in flight finish.
func (d *doors) run(ctx context.Context) error {
	all := []func(context.Context) error{d.http.Run}
	if d.resp != nil {
		all = append(all, d.resp.Run)
	}
	if d.rls != nil {
		all = append(all, d.rls.Run)
	}
	if d.statsd != nil {
		all = append(all, d.statsd.Run)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, len(all))
	for _, door := range all {
		go func() {
			defer end()
			ended <- door(ctx)
		}()
	}
	var err error
	for range all {
		err = errors.Join(err, <-ended)
	}
	return err
}

func (d *doors) rlsAddr() string {
	if d.rls == nil {
		return ""
	}
	return d.rls.Addr()
}

// reload reads files of doors again.
func (d *doors) reload() {
	if d.rls != nil {
		d.rls.Reload()
	}
}

func (d *doors) statsdAddr() string {
	if d.statsd == nil {
		return ""
	}
	return d.statsd.Addr()
}

func (d *doors) respAddr() string {
	if d.resp == nil {
		return ""
	}
	return d.resp.Addr()
}

func (d *doors) addr() string { return d.http.Addr() }

func (d *doors) handler() http.Handler { return d.http.Handler() }

// addressHint says which setting chooses another address.
func addressHint(err error, flag string) error {
	var wrong *net.AddrError // a port that is none
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: is a server running already? choose another address with --%s", err, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine has no such address: choose one of its own with --%s, 127.0.0.1 for itself alone", err, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: ports below 1024 are for root, or need CAP_NET_BIND_SERVICE: choose another with --%s", err, flag)
	case errors.As(err, &wrong):
		return fmt.Errorf("%w: write host:port with a port from 0 to 65535 for --%s", err, flag)
	}
	return err
}
