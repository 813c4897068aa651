package join

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// nodeTLS is mutual TLS between nodes. What the handshake would only hint at in
// the logs of two machines is checked here, where it can be named.
func nodeTLS(files TLS) (*tls.Config, error) {
	pool, err := authorities("--cluster-ca", files.CA)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, fmt.Errorf("--cluster-cert, --cluster-key: %w", err)
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	// A node is the server of some connections and the client of others.
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return nil, fmt.Errorf("--cluster-cert %s: %w: it must be signed by --cluster-ca, for server and client authentication", files.Cert, err)
		}
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

func authorities(flag, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s: no certificate in it: it must be PEM", flag, file)
	}
	return pool, nil
}
