package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/limit"
)

// defineRLS defines the flags of the door for Envoy.
func (f *serveFlags) defineRLS(cmd *cobra.Command) {
	r, flags := &f.node.RLS, cmd.Flags()
	flags.StringVar(&r.Addr, "rls", "", "address for Envoy's rate limit service, host:port, such as 127.0.0.1:8081 (docs/envoy.md)")
	flags.StringVar(&r.Limits, "rls-config", "", "file or folder with limits as envoyproxy/ratelimit has them, for --rls; read again when they change, and at a SIGHUP")
	flags.BoolVar(&r.MergeDomains, "rls-merge-domains", false, "let several files of --rls-config have one domain")
	choice(cmd, &f.rlsAlgorithm, "rls-algorithm", "how limits of --rls-config are kept; fixed counts by the minute or hour of the clock, as envoyproxy/ratelimit does", limit.Window.String(), limit.Fixed.String(), limit.GCRA.String())
	choice(cmd, &r.Headers, "rls-headers", "header fields that Envoy is asked to add to responses", "draft", "plain", "none")
}

func algorithmOf(word string) limit.Algorithm {
	for _, a := range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		if a.String() == word {
			return a
		}
	}
	panic(word) // the flag takes no other
}
