package main

import "github.com/spf13/cobra"

func (f *serveFlags) defineStatsD(cmd *cobra.Command) {
	d, flags := &f.node.StatsD, cmd.Flags()
	flags.StringVar(&d.Addr, "statsd", "", "address for StatsD by UDP and TCP, host:port, such as 127.0.0.1:8125 (docs/statsd.md)")
	flags.StringVar(&d.Key, "statsd-key", d.Key, "what keys are made of, with --statsd: text, {name}, {tag:NAME}, {tags}")
	flags.StringVar(&d.Identity, "statsd-identity", "", "identity of the tokens file whose hits those of StatsD are")
}
