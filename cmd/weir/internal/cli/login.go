package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/settings"
)

// Login is how a command proves to a server who it is, and how it knows the server.
type Login struct {
	token, ca, cert, key string

	cmd *cobra.Command // whose login it is
}

// Define adds the flags of a login to a command.
func (l *Login) Define(cmd *cobra.Command) {
	l.cmd = cmd
	cmd.Flags().StringVar(&l.token, "token", "", "token of a server that wants one; WEIR_TOKEN is better, since others see command lines")
	cmd.Flags().StringVar(&l.ca, "ca", "", "PEM file of the authority that signed the server's certificate (default: those of this machine)")
	cmd.Flags().StringVar(&l.cert, "cert", "", "PEM file of a client certificate, in place of a token or beside it (weir serve --tls-client-ca)")
	cmd.Flags().StringVar(&l.key, "cert-key", "", "PEM file of its key (default: it is in the file of --cert)")
}

// userAgent names the program to a server.
func (l *Login) userAgent() string { return "weir/" + l.cmd.Root().Version }

// Options adds the login to those of a client.
func (l *Login) Options(o client.Options) (client.Options, error) {
	o.Token, o.UserAgent = l.token, l.userAgent()
	if l.ca == "" && l.cert == "" && l.key == "" {
		return o, nil
	}
	o.TLS = &tls.Config{}
	if l.ca != "" {
		text, err := settings.ReadAtMost(l.ca, settings.MaxBytes)
		if err != nil {
			return o, fmt.Errorf("--ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return o, Usage(fmt.Errorf("--ca %s: no certificate in PEM", l.ca))
		}
	}
	certificates, err := l.certificates()
	o.TLS.Certificates = certificates
	return o, err
}

// certificates are what the command shows a server that asks for one.
func (l *Login) certificates() ([]tls.Certificate, error) {
	switch {
	case l.cert == "" && l.key == "":
		return nil, nil
	case l.cert == "":
		return nil, Usage(errors.New("--cert-key: it is the key of a certificate, which --cert names"))
	}
	cert, err := settings.ReadAtMost(l.cert, settings.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("--cert: %w", err)
	}
	key := cert
	if l.key != "" {
		if key, err = settings.ReadAtMost(l.key, settings.MaxBytes); err != nil {
			return nil, fmt.Errorf("--cert-key: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, Usage(fmt.Errorf("--cert %s: it and its key (--cert-key) are no pair: %w", l.cert, err))
	}
	return []tls.Certificate{pair}, nil
}

// Do sends a request of the command's own.
func (l *Login) Do(req *http.Request) (*http.Response, error) {
	o, err := l.Options(client.Options{})
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", o.UserAgent)
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS
	return (&http.Client{Transport: transport}).Do(req)
}

// loginHint says what to do about a server that wants to know who asks, in the words of the command
// line.
func loginHint(err error) error {
	if err != nil && strings.Contains(err.Error(), "certificate signed by unknown authority") {
		return fmt.Errorf("%w: name its authority with --ca FILE", err)
	}
	return err
}
