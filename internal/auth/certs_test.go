package auth_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/testsupport"
)

// dial is the serial number of the certificate that a listener shows.
func dial(t *testing.T, addr string, cfg *tls.Config) (serial int64, version uint16, err error) {
	t.Helper()
	c, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	is := c.ConnectionState()
	return is.PeerCertificates[0].SerialNumber.Int64(), is.Version, nil
}

func listen(t *testing.T, s *auth.CertStore) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				_ = c.(*tls.Conn).Handshake() // the client says how it went
				c.Close()
			}(c)
		}
	}()
	return l.Addr().String()
}

// A renewed certificate is in use for the next connection; a wrong one changes nothing.
func TestRenewal(t *testing.T) {
	ca := testsupport.NewAuthority(t)
	cert, key := ca.Server()
	s, err := auth.LoadCerts(auth.CertFiles{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	addr, client := listen(t, s), &tls.Config{RootCAs: ca.Pool()}
	first, version, err := dial(t, addr, client)
	if err != nil || version != tls.VersionTLS13 {
		t.Fatalf("%x, %v", version, err)
	}
	reports := make(chan error, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	reload := make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, reload, func(err error) { reports <- err })
	}()
	defer func() { cancel(); <-ended }()
	ca.Server()
	if err := <-reports; err != nil {
		t.Fatal(err)
	}
	second, _, err := dial(t, addr, client)
	if err != nil || second == first {
		t.Errorf("after the renewal: %d, %v", second, err)
	}
	if err := os.WriteFile(key, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload <- struct{}{}
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "in use stay") {
		t.Errorf("a wrong key: %v", err)
	}
	if again, _, err := dial(t, addr, client); err != nil || again != second {
		t.Errorf("after a wrong key: %d, %v", again, err)
	}
}

func TestVersions(t *testing.T) {
	ca := testsupport.NewAuthority(t)
	cert, key := ca.Server()
	for least, want := range map[uint16]bool{0: false, tls.VersionTLS12: true} {
		s, err := auth.LoadCerts(auth.CertFiles{Cert: cert, Key: key, Min: least})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := dial(t, listen(t, s), &tls.Config{RootCAs: ca.Pool(), MaxVersion: tls.VersionTLS12}); (err == nil) != want {
			t.Errorf("least %x: TLS 1.2: %v", least, err)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	ca := testsupport.NewAuthority(t)
	cert, key := ca.Server()
	for _, files := range []auth.CertFiles{{Cert: cert, Key: cert}, {Cert: key, Key: key}, {Cert: cert + "x", Key: key}, {Cert: cert, Key: key, ClientCA: key}, {Cert: t.TempDir(), Key: key}} {
		if _, err := auth.LoadCerts(files); err == nil {
			t.Errorf("%+v: no error", files)
		}
	}
}
