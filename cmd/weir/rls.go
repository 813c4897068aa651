package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/limit"
)

// defineRLS defines the flags of the door for Envoy.
func (f *serveFlags) defineRLS(cmd *cobra.Command) {
	r, flags := &f.node.RLS, cmd.Flags()
	flags.StringVar(&r.Addr, "rls", "", "address for Envoy's rate limit service, host:port, such as 127.0.0.1:8081 (docs/envoy.md)")
	flags.StringVar(&r.Limits, "rls-config", "", "file or folder with limits as envoyproxy/ratelimit has them, for --rls; read again when they change, and at a SIGHUP")
	flags.StringVar(&r.XDS.Addr, "rls-xds", "", "management server that limits come from, in place of --rls-config, host:port: Envoy Gateway")
	flags.StringVar(&r.XDS.Node, "rls-xds-node", r.XDS.WithDefaults().Node, "name that the management server knows this one by")
	flags.StringVar(&r.XDS.CA, "rls-xds-ca", "", "file with the authorities of the management server's certificate; without it there is no TLS")
	flags.StringVar(&r.XDS.Cert, "rls-xds-cert", "", "file with the certificate to show to the management server")
	flags.StringVar(&r.XDS.Key, "rls-xds-key", "", "file with its key")
	flags.BoolVar(&r.MergeDomains, "rls-merge-domains", false, "let several files of --rls-config, or resources of --rls-xds, have one domain")
	cli.Choice(cmd, &f.rlsAlgorithm, "rls-algorithm", "how limits of --rls-config are kept; fixed counts by the minute or hour of the clock, as envoyproxy/ratelimit does", limit.Window.String(), limit.Fixed.String(), limit.GCRA.String())
	flags.BoolVar(&r.Metadata, "rls-metadata", false, "answers carry dynamic metadata for Envoy: the request, the metadata of the limits that let it pass, and of limits that regions share what others used")
	cli.Choice(cmd, &r.Headers, "rls-headers", "header fields that Envoy is asked to add to responses", "draft", "plain", "none")
}

func algorithmOf(word string) limit.Algorithm {
	for _, a := range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		if a.String() == word {
			return a
		}
	}
	panic(word) // the flag takes no other
}
