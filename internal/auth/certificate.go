package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/filewatch"
)

// Certificate is what a client's verified certificate proves. It does not change.
type Certificate struct {
	Names []string  // all subject alternative names, as tokens files write them: dns:NAME, uri:URI, email:ADDRESS, ip:ADDRESS
	Ends  time.Time // when the certificate, or an authority of its chain, expires
}

// CertificateOf returns the certificate at the start of verified chains, of which there is at least one. It ends with
// the last of the chains.
func CertificateOf(chains [][]*x509.Certificate) (c Certificate) {
	c.Names = namesOf(chains[0][0])
	for _, chain := range chains {
		ends := chain[0].NotAfter
		for _, authority := range chain[1:] {
			if authority.NotAfter.Before(ends) {
				ends = authority.NotAfter
			}
		}
		if ends.After(c.Ends) {
			c.Ends = ends
		}
	}
	return c
}

func namesOf(certificate *x509.Certificate) (names []string) {
	for _, name := range certificate.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, uri := range certificate.URIs {
		names = append(names, "uri:"+uri.String())
	}
	for _, address := range certificate.EmailAddresses {
		names = append(names, "email:"+address)
	}
	for _, address := range certificate.IPAddresses {
		names = append(names, "ip:"+address.String())
	}
	return names
}

// This file is the TLS of all listeners of a server: a certificate, its key and the authorities of
// clients' certificates. Their files are read again when they are renewed.
//
// Invariants. A connection begins with the newest files that were good; files that are wrong
// change nothing. Connections that are open keep what they began with.

// CertFiles are where certificates are, in PEM.
type CertFiles struct {
	Cert string // the server's, with those between it and its authority
	Key  string
	// ClientCA is the authorities of clients' certificates. "": clients show none. A client with a
	// certificate of another authority is refused; a client without one identifies itself in another way.
	ClientCA string
	Min      uint16 // tls.VersionTLS12 or 13; 0: 13
}

// maxBytes bounds one file.
const maxBytes = 1 << 20

// CertStore is the certificates in use. Create it with LoadCerts; it is safe for many goroutines.
type CertStore struct {
	files  CertFiles
	config *tls.Config
	now    atomic.Pointer[loaded]
	wrong  atomic.Bool // the newest files are not in use
}

// loaded is what was read at one time.
type loaded struct {
	config  *tls.Config
	content filewatch.Hash
	expires time.Time
}

// LoadCerts reads the files for the first time.
func LoadCerts(files CertFiles) (*CertStore, error) {
	s := &CertStore{files: files}
	s.files.Min = cmp.Or(files.Min, tls.VersionTLS13)
	data, err := s.read(files.Cert)
	if err != nil {
		return nil, err
	}
	if err := s.use(files.Cert, data); err != nil {
		return nil, err
	}
	s.config = &tls.Config{
		MinVersion:         s.files.Min,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.now.Load().config, nil },
	}
	return s, nil
}

// Config is for listeners. It does not change: what it refers to does.
func (s *CertStore) Config() *tls.Config { return s.config }

// Expires is when the certificate in use does.
func (s *CertStore) Expires() time.Time { return s.now.Load().expires }

// Wrong reports whether the newest files are not in use, as Watch last reported.
func (s *CertStore) Wrong() bool { return s.wrong.Load() }

// between stands between the files as read returns them: no PEM has it.
var between = []byte{0}

// read returns the certificate, its key and the authorities.
func (s *CertStore) read(string) ([]byte, error) {
	var all [3][]byte
	for i, path := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		if path == "" {
			continue
		}
		text, err := filewatch.Read(path, "certificates", maxBytes)
		if err != nil {
			return nil, err
		}
		if len(text) > maxBytes {
			return nil, fmt.Errorf("%s: larger than 1 MiB", path)
		}
		all[i] = text
	}
	return bytes.Join(all[:], between), nil
}

// use puts what read returned to use.
func (s *CertStore) use(_ string, data []byte) error {
	cert, rest, _ := bytes.Cut(data, between)
	key, authorities, _ := bytes.Cut(rest, between)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s with %s: %w", s.files.Cert, s.files.Key, err)
	}
	is := &loaded{content: filewatch.HashOf(data), expires: pair.Leaf.NotAfter, config: &tls.Config{
		MinVersion: s.files.Min, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}}
	if s.files.ClientCA != "" {
		is.config.ClientCAs = x509.NewCertPool()
		if !is.config.ClientCAs.AppendCertsFromPEM(authorities) {
			return fmt.Errorf("%s: no certificate in PEM: name the authorities that sign clients' certificates", s.files.ClientCA)
		}
		is.config.ClientAuth = tls.VerifyClientCertIfGiven
		is.config.SessionTicketsDisabled = true // a session that goes on would outlive its authority
	}
	s.now.Store(is)
	return nil
}

// Watch puts renewed files to use until ctx ends, as filewatch.File does. A certificate and
// its key are rarely renewed at one instant, so a pair that does not fit is read once more before it is a fault.
func (s *CertStore) Watch(ctx context.Context, reload <-chan struct{}, report func(error)) {
	files := filewatch.File{
		Path: s.files.Cert, What: "certificates", Gone: "put it back", Settles: true,
		Read: s.read, InUse: func() filewatch.Hash { return s.now.Load().content }, Take: s.use,
		Report: func(err error) {
			s.wrong.Store(err != nil)
			report(err)
		},
	}
	files.Watch(ctx, reload)
}
