package jointest

import (
	"crypto/x509"
	"net"
	"testing"

	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/internal/certs/certstest"
)

// Authority signs certificates of one test's nodes.
type Authority struct {
	CA  string   // the file of its own certificate
	IPs []net.IP // that its certificates are for: loopback, unless it is changed

	signs *certstest.Authority
}

// NewAuthority makes one, whose files are removed with the test's.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	signs := certstest.New(t)
	return &Authority{CA: signs.File(), IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, signs: signs}
}

// Issue makes the files of a node. uses are those that its certificate is for; none:
// both that a node needs.
func (a *Authority) Issue(t testing.TB, name string, uses ...x509.ExtKeyUsage) join.TLS {
	t.Helper()
	if len(uses) == 0 {
		uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	files := join.TLS{CA: a.CA}
	files.Cert, files.Key = a.signs.Issue(name, a.IPs, uses...)
	return files
}
