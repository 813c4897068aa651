package transport_test

import (
	"crypto/x509"
	"net"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/testsupport"
)

// authority signs certificates of one test's nodes, for loopback.
type authority struct {
	*testsupport.Authority
	CA string // the file of its own certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	signs := testsupport.NewAuthority(t)
	return &authority{signs, signs.File()}
}

// issue makes the files of a node. uses are those that its certificate is for; none: both that a node needs.
func (a *authority) issue(name string, uses ...x509.ExtKeyUsage) transport.TLS {
	if len(uses) == 0 {
		uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	files := transport.TLS{CA: a.CA}
	files.Cert, files.Key = a.Issue(name, []net.IP{net.IPv4(127, 0, 0, 1)}, uses...)
	return files
}
