package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/settings"
)

// TLS is the certificates of all listeners, in files of PEM that are read again when they are renewed.
type TLS = auth.CertFiles

// Tokens say who may do what.
type Tokens struct {
	// File is the tokens file, read at the start, again when it changes, and at Reload. "": there
	// is none, and anybody who reaches a listener may do everything.
	File string
}

// locks are tokens and certificates.
type locks struct {
	tokens *access.Tokens     // nil: everybody may do everything
	certs  *auth.CertStore    // nil: listeners speak without TLS
	reload concurrency.Signal // of certs; holds one
}

// readLocks reads the files for the first time, before anything is opened.
func readLocks(cfg *Config) (l locks, err error) {
	l.reload = concurrency.NewSignal()
	if l.tokens, err = access.ReadTokens(cfg.Tokens.File); err != nil {
		return l, err
	}
	if err := l.checkStatsD(cfg); err != nil || cfg.TLS.Cert == "" {
		return l, err
	}
	if l.certs, err = auth.LoadCerts(cfg.TLS); err != nil {
		return l, fmt.Errorf("%s: %w", tlsFlag(cfg.TLS, err), err)
	}
	cfg.HTTP.TLS, cfg.RESP.TLS, cfg.RLS.TLS = l.certs.Config(), l.certs.Config(), l.certs.Config()
	return l, nil
}

// checkStatsD refuses an identity of StatsD that is not there, or may not send hits.
func (l *locks) checkStatsD(cfg *Config) error {
	name := cfg.StatsD.Identity
	if name == "" || cfg.StatsD.Addr == "" {
		return nil
	}
	login, err := l.tokens.Live().Named(name)
	switch {
	case err != nil:
		return settings.Invalid("StatsD.Identity", fmt.Sprintf("identity %q: %v: name one of %s", name, err, cfg.Tokens.File))
	case login.Identity.Permission(auth.Ingest) == nil:
		return settings.Invalid("StatsD.Identity", fmt.Sprintf("identity %q has no role ingest, so no line of StatsD would be counted: give it `- role: ingest` in %s, or name another", name, cfg.Tokens.File))
	}
	return nil
}

// tlsFlag names the setting of the file at fault, or all of them.
func tlsFlag(t TLS, err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		switch failed.Path {
		case t.Cert:
			return "--tls-cert"
		case t.Key:
			return "--tls-key"
		case t.ClientCA:
			return "--tls-client-ca"
		}
	}
	return "files of --tls-cert, --tls-key and --tls-client-ca"
}

// watch follows the files until parts are closed.
func (l *locks) watch(cfg *Config, parts *parts) {
	ctx, cancel := context.WithCancel(context.Background())
	tokensEnded := l.tokens.Watch(ctx, cfg.Logger)
	certsEnded := make(chan struct{})
	go func() {
		defer close(certsEnded)
		if l.certs == nil {
			return
		}
		cfg.Logger.Info("the certificate is in use", "file", cfg.TLS.Cert, "expires", l.certs.Expires())
		l.certs.Watch(ctx, l.reload, func(err error) {
			if err != nil {
				cfg.Logger.Error("certificate files", "problem", err)
				return
			}
			cfg.Logger.Info("the certificate is in use", "file", cfg.TLS.Cert, "expires", l.certs.Expires())
		})
	}()
	parts.opened(func(context.Context) error {
		cancel()
		tokensEnded()
		<-certsEnded
		return nil
	})
}

// expiresSoon is how long before its end a certificate is an alarm.
const expiresSoon = 7 * 24 * time.Hour

// alarms returns the alarms of certificates that are wrong or expire soon.
func (l *locks) alarms() (list []api.Alarm) {
	if l.certs == nil {
		return nil
	}
	if l.certs.Wrong() {
		list = append(list, api.Alarm{Code: "certificate_files_bad", Message: "the newest certificate files are not in use, because they are wrong or can't be read; those before them are: the server's log says why"})
	}
	if end := l.certs.Expires(); time.Until(end) < expiresSoon {
		list = append(list, api.Alarm{Code: "certificate_expires", Message: "the certificate of --tls-cert is good until " + end.UTC().Format(time.RFC3339) + ": renew it; the files are read again by themselves"})
	}
	return list
}

func (l *locks) reloadAll() {
	l.tokens.Reload()
	l.reload.Raise()
}

// validateLocks refuses listeners for other machines without tokens and TLS, unless Insecure.
func (cfg *Config) validateLocks() error {
	t := cfg.TLS
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return settings.Invalid("TLS.Cert", "a certificate and its key belong together: give --tls-cert and --tls-key")
	case t.ClientCA != "" && (t.Cert == "" || cfg.Tokens.File == ""):
		return settings.Invalid("TLS.ClientCA", "clients' certificates need TLS (--tls-cert, --tls-key), and a tokens file (--tokens) that says whose they are")
	case t.Min != 0 && t.Min != tls.VersionTLS12 && t.Min != tls.VersionTLS13:
		return settings.Invalid("TLS.Min", "the least version of TLS is 1.2 or 1.3")
	case cfg.Insecure || t.Cert != "" && cfg.Tokens.File != "":
		return nil
	}
	missing := "no --tokens and no --tls-cert: anybody there could read, delete and back up"
	switch {
	case t.Cert != "":
		missing = "no --tokens: anybody there could read, delete and back up"
	case cfg.Tokens.File != "":
		missing = "no --tls-cert: tokens would travel in the clear"
	}
	for _, listener := range []struct{ flag, field, addr string }{{"http", "HTTP.Addr", cfg.HTTP.Addr}, {"resp", "RESP.Addr", cfg.RESP.Addr}, {"rls", "RLS.Addr", cfg.RLS.Addr}} {
		if listener.addr != "" && beyondLoopback(listener.addr) {
			return settings.Invalid(listener.field, fmt.Sprintf("other machines can reach --%s %s, and there is %s. Give both ('weir token create NAME --role ROLE --tokens FILE' makes a tokens file, see docs/security.md), listen on 127.0.0.1, or say --insecure where a proxy or the network keeps strangers out",
				listener.flag, listener.addr, missing))
		}
	}
	return nil
}

// validateStatsD checks that with tokens, StatsD has an identity: it has no authentication, so anyone who reaches the
// address can send hits.
func (cfg *Config) validateStatsD() error {
	d := cfg.StatsD
	switch named, locked := d.Identity != "", cfg.Tokens.File != ""; {
	case d.Addr == "" && named:
		return settings.Invalid("StatsD.Identity", "--statsd-identity is of StatsD: give --statsd too")
	case d.Addr == "":
		return nil
	case locked && !named:
		return settings.Invalid("StatsD.Identity", "with --tokens, --statsd needs --statsd-identity NAME: StatsD has no authentication, so all its hits belong to one identity of the tokens file, with role ingest")
	case named && !locked:
		return settings.Invalid("StatsD.Identity", "--statsd-identity is a name of the tokens file: give --tokens, or leave it out")
	case beyondLoopback(d.Addr) && !named && !cfg.Insecure:
		return settings.Invalid("StatsD.Addr", "other machines can reach --statsd "+d.Addr+", and anybody there could send hits of any key. Give --tokens and --statsd-identity NAME, whose keys and ceilings bound them (docs/statsd.md), listen on 127.0.0.1, or say --insecure where the network keeps strangers out")
	}
	return nil
}

// beyondLoopback reports whether other machines may reach an address to listen on. A name other than localhost may be any
// address.
func beyondLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" || strings.HasPrefix(addr, "unix:") {
		return false // what is no address is refused as such
	}
	at, err := netip.ParseAddr(host)
	return err != nil || !at.Unmap().IsLoopback()
}
