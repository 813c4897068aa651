// Package certs is the TLS of all doors of a server: a certificate, its key and the authorities of
// clients' certificates, from files that are read again when they are renewed.
//
// Invariants. A connection begins with the newest files that were good; files that are wrong
// change nothing. Connections that are open keep what they began with. HTTP/2 is not
// offered: the bounds of doors are per connection.
package certs

import (
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

// Files are where certificates are, in PEM.
type Files struct {
	Cert string // the server's, with those between it and its authority
	Key  string
	// ClientCA is the authorities of clients' certificates. "": clients have none to show. Who shows
	// one that they did not sign is refused; who shows none proves otherwise who it is.
	ClientCA string
	Min      uint16 // tls.VersionTLS12 or 13; 0: 13
}

// maxBytes bounds one file.
const maxBytes = 1 << 20

// Store is the certificates in use. Create it with Load; it is safe for many goroutines.
type Store struct {
	files  Files
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

// Load reads the files for the first time.
func Load(files Files) (*Store, error) {
	s := &Store{files: files}
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
func (s *Store) Config() *tls.Config { return s.config }

// Expires is when the certificate in use does.
func (s *Store) Expires() time.Time { return s.now.Load().expires }

// Wrong tells whether the newest files are not in use, as Watch last reported.
func (s *Store) Wrong() bool { return s.wrong.Load() }

func (s *Store) min() uint16 {
	if s.files.Min == 0 {
		return tls.VersionTLS13
	}
	return s.files.Min
}

func (s *Store) read() (*loaded, error) {
	var all [3][]byte
	sum := sha256.New()
	for i, path := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		if path == "" {
			continue
		}
		text, err := readFile(path)
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

func readFile(path string) (text []byte, err error) {
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
