package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/weir-counter/weir/internal/server/envoy"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/server/resp"
	"github.com/weir-counter/weir/internal/server/statsd"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/topics"
)

// listeners are how clients reach a node, each by one protocol: HTTP, and the others that are wanted.
type listeners struct {
	cfg     httpapi.Config
	resp    resp.Config
	opening *httpapi.Opening // nil: nothing listens before the node is ready
	http    *httpapi.Server
	others  []*listener
}

// listener is RESP, gRPC for Envoy, or StatsD.
type listener struct {
	flag   string
	listen func(phase func() httpapi.Phase) (io.Closer, error) // before the node is ready
	answer func(s *service.Service) (server, error)
	server server // nil until then
}

// server is the server of a listener.
type server interface {
	access.Listener
	Listen() error
	Addr() string
	Run(ctx context.Context) error
	Close() error
}

func newListeners(cfg *Config) listeners {
	d := listeners{cfg: cfg.HTTP, resp: cfg.RESP}
	if cfg.RESP.Addr != "" {
		d.others = append(d.others, newListener("resp", func(phase func() httpapi.Phase) (*resp.Opening, error) {
			return resp.Open(cfg.RESP, func() string {
				is := phase()
				return is.Status + ": " + is.Detail
			})
		}, func(s *service.Service) (*resp.Server, error) { return resp.New(s, cfg.RESP) }))
	}
	if cfg.RLS.Addr != "" {
		d.others = append(d.others, newListener("rls", func(func() httpapi.Phase) (*envoy.Opening, error) {
			return envoy.Open(cfg.RLS)
		}, func(s *service.Service) (*envoy.Server, error) { return envoy.New(s, cfg.RLS) }))
	}
	if cfg.StatsD.Addr != "" {
		d.others = append(d.others, newListener("statsd", func(func() httpapi.Phase) (*statsd.Opening, error) {
			return statsd.Open(cfg.StatsD)
		}, func(s *service.Service) (*statsd.Server, error) { return statsd.New(s, cfg.StatsD) }))
	}
	for _, url := range cfg.Topics.From {
		d.others = append(d.others, &listener{
			flag:   "from",
			listen: func(func() httpapi.Phase) (io.Closer, error) { return io.NopCloser(nil), nil },
			answer: func(s *service.Service) (server, error) { return topics.New(s, url, cfg.Logger) },
		})
	}
	return d
}

// newListener returns the listener of a protocol. A server that is created after an opening takes over its address.
func newListener[O io.Closer, S interface {
	server
	TakeOver(opening O)
}](flag string, open func(phase func() httpapi.Phase) (O, error), create func(s *service.Service) (S, error)) *listener {
	var opening O
	opened := false
	return &listener{
		flag: flag,
		listen: func(phase func() httpapi.Phase) (_ io.Closer, err error) {
			opening, err = open(phase)
			opened = err == nil
			return opening, err
		},
		answer: func(s *service.Service) (server, error) {
			made, err := create(s)
			if err != nil {
				return nil, err
			}
			if opened {
				made.TakeOver(opening)
			}
			return made, nil
		},
	}
}

// listen has the listeners listen, and answer with phase until they are open, as far as their protocols can. It comes before
// the data directory is opened: a start that fails for an address has changed nothing there.
func (d *listeners) listen(phase func() httpapi.Phase, parts *parts) error {
	opening, err := httpapi.Open(d.cfg, phase)
	if err != nil {
		return addressHint(err, "http")
	}
	parts.opened(func(context.Context) error { return opening.Close() })
	d.opening = opening
	for _, l := range d.others {
		opening, err := l.listen(phase)
		if err != nil {
			return addressHint(err, l.flag)
		}
		parts.opened(func(context.Context) error { return opening.Close() })
	}
	return nil
}

// open has the listeners answer for s. Clients that connect wait for run.
func (d *listeners) open(s *service.Service, parts *parts) (err error) {
	if d.http, err = httpapi.New(s, d.cfg); err != nil {
		return err
	}
	d.http.TakeOver(d.opening)
	if d.resp.Addr == "" && s.Backend().Counters != nil { // other nodes may have clients of Redis, and this one the counters
		if _, err := resp.New(s, d.resp); err != nil {
			return err
		}
	}
	for _, l := range d.others {
		if l.server, err = l.answer(s); err != nil {
			return err
		}
		s.Attach(l.server)
		parts.opened(func(context.Context) error { return l.server.Close() })
		if err := l.server.Listen(); err != nil {
			return addressHint(err, l.flag)
		}
	}
	return addressHint(d.http.Serve(), "http")
}

// run answers until ctx ends, or a listener fails, and then lets requests in flight finish.
func (d *listeners) run(ctx context.Context) error {
	all := []func(context.Context) error{d.http.Run}
	for _, l := range d.others {
		all = append(all, l.server.Run)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, len(all))
	for _, run := range all {
		go func() {
			defer end()
			ended <- run(ctx)
		}()
	}
	var err error
	for range all {
		err = errors.Join(err, <-ended)
	}
	return err
}

// addr returns the address of a listener; "" if it is not wanted.
func (d *listeners) addr(flag string) string {
	for _, l := range d.others {
		if l.flag == flag {
			return l.server.Addr()
		}
	}
	return ""
}

func (d *listeners) reload() {
	for _, l := range d.others {
		if r, ok := l.server.(interface{ Reload() }); ok {
			r.Reload()
		}
	}
}

// addressHint says which setting chooses another address.
func addressHint(err error, flag string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: is a server running already? choose another address with --%s", err, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine has no such address: choose one of its own with --%s, 127.0.0.1 for itself alone", err, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: ports below 1024 are for root, or need CAP_NET_BIND_SERVICE: choose another with --%s", err, flag)
	}
	return err
}
