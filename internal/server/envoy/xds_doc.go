package envoy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/weir-counter/weir/internal/settings"
)

// This part gets the limits of the rate limit service from a management server, such as Envoy Gateway. It is a client
// of Envoy's aggregated discovery service (ADS, state of the world). The resources have the type
// ratelimit.config.ratelimit.v3.RateLimitConfig.
//
// Invariants. The limits that were accepted last stay in use, whatever happens to the server. Each answer is
// acknowledged, or refused with the reason, before the next one is read.

// XDSConfig says where the management server is, and who asks it.
type XDSConfig struct {
	// Addr is the server's, host:port. "": there is none.
	Addr string
	// Node is the name by which the server knows this client. Default envoy-ratelimit, the name that Envoy Gateway
	// expects.
	Node string
	// CA is a file with the authorities of the server's certificate. "": the connection has no TLS.
	CA string
	// Cert and Key are files with the client's certificate, if the server wants one. All three are read again for each
	// connection.
	Cert, Key string
	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c XDSConfig) WithDefaults() XDSConfig {
	c.Node = cmp.Or(c.Node, "envoy-ratelimit")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate says what is wrong with a Config whose Addr is given.
func (c XDSConfig) Validate() error {
	switch err := settings.CheckAddr(c.Addr); {
	case err != nil:
		return err
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("--rls-xds-tls has only one of tls.crt and tls.key: put both there, or neither")
	case c.Cert != "" && c.CA == "":
		return errors.New("a certificate is for TLS: put ca.crt into --rls-xds-tls too")
	case c.CA != "":
		_, err := c.tls()
		return err
	}
	return nil
}

// tls reads the files.
func (c *XDSConfig) tls() (*tls.Config, error) {
	text, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	made := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !made.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificates in PEM", c.CA)
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}
