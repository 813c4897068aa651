package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/testsupport"
)

// A TLS handshake that fails says which flag or certificate to change.
func TestLoginHint(t *testing.T) {
	t.Parallel()
	here := net.IPv4(127, 0, 0, 1)
	ca, stranger := testsupport.NewAuthority(t), testsupport.NewAuthority(t)
	serve := func(authority *testsupport.Authority, ip net.IP, c *tls.Config) string {
		t.Helper()
		cert, key := authority.Issue("server", []net.IP{ip}, x509.ExtKeyUsageServerAuth)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		c.Certificates = []tls.Certificate{pair}
		s.TLS = c
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, test := range []struct {
		name, server string
		trusted      *x509.CertPool
		skew         time.Duration // of the client's clock
		want         string
	}{
		{"unknown authority", serve(ca, here, &tls.Config{}), stranger.Pool(), 0, "name its authority with --ca FILE"},
		{"wrong name", serve(ca, net.IPv4(10, 0, 0, 1), &tls.Config{}), ca.Pool(), 0, "or give it a certificate for 127.0.0.1"},
		{"expired", serve(ca, here, &tls.Config{}), ca.Pool(), 2 * time.Hour, "renew the server's certificate (weir serve --tls-cert), or set the clock"},
		{"no client certificate", serve(ca, here, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}), ca.Pool(), 0, "--cert and --cert-key"},
	} {
		c, err := client.New(test.server, client.Options{Retries: -1, Timeout: time.Minute, TLS: &tls.Config{RootCAs: test.trusted, Time: func() time.Time { return time.Now().Add(test.skew) }}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Stats(context.Background()); err == nil || !strings.Contains(loginHint(err).Error(), test.want) {
			t.Errorf("%s: %v", test.name, loginHint(err))
		}
	}
}
