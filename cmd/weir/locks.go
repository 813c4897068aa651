package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

// defineLocks adds the flags that keep strangers out.
func (f *serveFlags) defineLocks(cmd *cobra.Command) {
	cfg, flags := &f.node, cmd.Flags()
	flags.StringVar(&cfg.Tokens.File, "tokens", "", "file that says who may do what ('weir token create' makes one); read again when it changes, and at a SIGHUP")
	flags.StringVar(&cfg.TLS.Cert, "tls-cert", "", "PEM file of the server's certificate; read again when it is renewed")
	flags.StringVar(&cfg.TLS.Key, "tls-key", "", "PEM file of its key")
	flags.StringVar(&cfg.TLS.ClientCA, "tls-client-ca", "", "PEM file of the authorities of client certificates, whose names the tokens file has")
	cli.Choice(cmd, &f.tlsMin, "tls-min", "least version of TLS", "1.3", "1.2")
	flags.BoolVar(&cfg.Insecure, "insecure", false, "let other machines reach a server without --tokens or --tls-cert")
	flags.StringVar(&cfg.AuditLog, "audit-log", "", "file that actions of role admin are noted in, as lines of JSON (default: the log)")
}
