package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
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

func namesOf(of *x509.Certificate) (names []string) {
	for _, name := range of.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, uri := range of.URIs {
		names = append(names, "uri:"+uri.String())
	}
	for _, address := range of.EmailAddresses {
		names = append(names, "email:"+address)
	}
	for _, address := range of.IPAddresses {
		names = append(names, "ip:"+address.String())
	}
	return names
}

// This part is the TLS of all listeners of a server: a certificate, its key and the authorities of
// clients' certificates, from files that are read again when they are renewed.
//
// Invariants. A connection begins with the newest files that were good; files that are wrong
// change nothing. Connections that are open keep what they began with. HTTP/2 is not
// offered: the bounds of listeners are per connection.

// CertFiles are where certificates are, in PEM.
type CertFiles struct {
	Cert string // the server's, with those between it and its authority
	Key  string
	// ClientCA is the authorities of clients' certificates. "": clients have none to show. Who shows
	// one that they did not sign is refused; who shows none proves otherwise who it is.
	ClientCA string
	Min      uint16 // tls.VersionTLS12 or 13; 0: 13
}

// maxBytes bounds one file.
const maxBytes = 1 << 20

// CertStore is the certificates in use. Create it with Load; it is safe for many goroutines.
type CertStore struct {
	files  CertFiles
	config *tls.Config
	now    atomic.Pointer[loaded]
	wrong  atomic.Bool // the newest files are not in use
}

// loaded is what was read at one time.
type loaded struct {
	config  *tls.Config
	content [sha256.Size]byte
	expires time.Time
}

// LoadCerts reads the files for the first time.
func LoadCerts(files CertFiles) (*CertStore, error) {
	s := &CertStore{files: files}
	first, err := s.read()
	if err != nil {
		return nil, err
	}
	s.now.Store(first)
	s.config = &tls.Config{
		MinVersion:         s.min(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.now.Load().config, nil },
	}
	return s, nil
}

// Config is for listeners. It does not change: what it refers to does.
func (s *CertStore) Config() *tls.Config { return s.config }

// Expires is when the certificate in use does.
func (s *CertStore) Expires() time.Time { return s.now.Load().expires }

// Wrong tells whether the newest files are not in use, as Watch last reported.
func (s *CertStore) Wrong() bool { return s.wrong.Load() }

func (s *CertStore) min() uint16 {
	if s.files.Min == 0 {
		return tls.VersionTLS13
	}
	return s.files.Min
}

func (s *CertStore) read() (*loaded, error) {
	var all [3][]byte
	sum := sha256.New()
	for i, path := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		if path == "" {
			continue
		}
		text, err := certsReadFile(path)
		if err != nil {
			return nil, err
		}
		all[i] = text
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	pair, err := tls.X509KeyPair(all[0], all[1])
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", s.files.Cert, s.files.Key, err)
	}
	is := &loaded{expires: pair.Leaf.NotAfter, config: &tls.Config{
		MinVersion: s.min(), Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"},
	}}
	sum.Sum(is.content[:0])
	if s.files.ClientCA != "" {
		is.config.ClientCAs = x509.NewCertPool()
		if !is.config.ClientCAs.AppendCertsFromPEM(all[2]) {
			return nil, fmt.Errorf("%s: no certificate in PEM: name the authorities that sign clients' certificates", s.files.ClientCA)
		}
		is.config.ClientAuth = tls.VerifyClientCertIfGiven
		is.config.SessionTicketsDisabled = true // a session that goes on would outlive its authority
	}
	return is, nil
}

func certsReadFile(path string) (text []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe could make the reader wait for ever
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(io.LimitReader(file, maxBytes+1))
	if len(text) > maxBytes {
		err = fmt.Errorf("%s: larger than 1 MiB", path)
	}
	return text, errors.Join(err, file.Close())
}

// watchEvery is how often Watch looks at the files.
const watchEvery = time.Second

// Watch puts renewed files to use until ctx ends: it looks once a second whether they have other
// content, and at once for each value from reload. report is called from Watch's goroutine: with
// nil when other files are in use, else with what is wrong, once for each fault. A certificate and
// its key are rarely renewed at one instant: a pair that does not fit is looked at
// again before it is a fault.
func (s *CertStore) Watch(ctx context.Context, reload <-chan struct{}, report func(error)) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	told, before := "", ""
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-reload:
			asked = true
		}
		is, err := s.read()
		switch {
		case err != nil:
			if text := err.Error(); asked || text == before && text != told {
				told = text
				s.wrong.Store(true)
				report(errors.Join(err, errors.New("the certificates in use stay until the files are corrected")))
			}
			before = err.Error()
			continue
		case is.content != s.now.Load().content || told != "":
			s.now.Store(is)
			s.wrong.Store(false)
			report(nil)
		}
		told, before = "", ""
	}
}
