package testsupport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Create it with NewAuthority.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64 // serial number
}

// NewAuthority makes an authority whose files are in a folder of the test's own.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test authority"}})
	return a
}

// sign makes a certificate of template: signed by a, or the first one by itself.
func (a *Authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	a.last++
	template.SerialNumber = big.NewInt(a.last)
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	a.check(err)
	cert, err := x509.ParseCertificate(der)
	a.check(err)
	return cert, key
}

func (a *Authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// File is the authority's certificate.
func (a *Authority) File() string { return a.write("ca.pem", "CERTIFICATE", a.cert.Raw) }

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Server writes a certificate for loopback, over the one before.
func (a *Authority) Server() (cert, key string) {
	return a.Issue("server", []net.IP{net.IPv4(127, 0, 0, 1)}, x509.ExtKeyUsageServerAuth)
}

// Issue writes a certificate for addresses and localhost, over the one before of that name.
func (a *Authority) Issue(name string, ips []net.IP, uses ...x509.ExtKeyUsage) (cert, key string) {
	c, k := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: ips, ExtKeyUsage: uses})
	der, err := x509.MarshalECPrivateKey(k)
	a.check(err)
	return a.write(name+".pem", "CERTIFICATE", c.Raw), a.write(name+".key", "EC PRIVATE KEY", der)
}

// Client makes a certificate of a client with a name of DNS.
func (a *Authority) Client(name string) tls.Certificate { return a.ClientUntil(time.Time{}, name) }

// ClientUntil is Client with several names and an end; zero: an hour from now.
func (a *Authority) ClientUntil(end time.Time, names ...string) tls.Certificate {
	c, k := a.sign(&x509.Certificate{NotAfter: end, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: k}
}

// ClientFiles are PEM files of a client's certificate and its key.
func (a *Authority) ClientFiles(name string) (cert, key string) {
	c := a.Client(name)
	der, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	a.check(err)
	return a.write("client.pem", "CERTIFICATE", c.Certificate[0]), a.write("client.key", "EC PRIVATE KEY", der)
}

func (a *Authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	a.check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}
