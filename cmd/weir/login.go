package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/settings"
)

// login is how a command proves to a server who it is, and how it knows the server.
type login struct{ token, ca string }

func (l *login) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.token, "token", "", "token of a server that wants one; WEIR_TOKEN is better, since others see command lines")
	cmd.Flags().StringVar(&l.ca, "ca", "", "PEM file of the authority that signed the server's certificate (default: those of this machine)")
}

// options adds the login to those of a client.
func (l *login) options(o client.Options) (client.Options, error) {
	o.Token = l.token
	if l.ca == "" {
		return o, nil
	}
	text, err := settings.ReadAtMost(l.ca, settings.MaxBytes)
	if err != nil {
		return o, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return o, usage{fmt.Errorf("--ca %s: no certificate in PEM", l.ca)}
	}
	o.TLS = &tls.Config{RootCAs: pool}
	return o, nil
}

// do sends a request of the command's own.
func (l *login) do(req *http.Request) (*http.Response, error) {
	o, err := l.options(client.Options{})
	if err != nil {
		return nil, err
	}
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
