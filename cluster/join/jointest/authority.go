package jointest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/cluster/join"
)

// Authority signs certificates of one test, good for an hour.
type Authority struct {
	CA   string   // the file of its own certificate
	IPs  []net.IP // that its certificates are for: loopback, unless it is changed
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority makes one, whose files are removed with the test's.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	dir := t.TempDir()
	a := &Authority{CA: filepath.Join(dir, "ca"), IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, dir: dir, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.CA, "CERTIFICATE", der)
	return a
}

// Issue makes the files of a node. uses are those that its certificate is for; none:
// both that a node needs.
func (a *Authority) Issue(t testing.TB, name string, uses ...x509.ExtKeyUsage) join.TLS {
	t.Helper()
	if len(uses) == 0 {
		uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: uses,
		IPAddresses: a.IPs,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	files := join.TLS{CA: a.CA, Cert: filepath.Join(a.dir, name+".cert"), Key: filepath.Join(a.dir, name+".key")}
	writePEM(t, files.Cert, "CERTIFICATE", der)
	if der, err = x509.MarshalECPrivateKey(key); err != nil {
		t.Fatal(err)
	}
	writePEM(t, files.Key, "EC PRIVATE KEY", der)
	return files
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
