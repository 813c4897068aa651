package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

// defineJoin adds the flags of a clustered node. What they are checked for,
// and the errors that name them, are cluster/join's.
func (f *serveFlags) defineJoin(cmd *cobra.Command) {
	c, flags := &f.node.Journal.Join, cmd.Flags()
	flags.StringVar(&c.Cluster, "cluster", "", "name of the cluster that this node is part of")
	flags.StringVar(&c.Node, "node", "", "this node's name, of which there is one in the cluster")
	flags.StringVar(&c.Addr, "cluster-addr", "", "host:port where other nodes reach this one")
	flags.StringVar(&c.Listen, "cluster-listen", "", "host:port to listen on for them, if it is another (NAT, containers)")
	flags.StringSliceVar(&c.Peers, "peers", nil, "the --cluster-addr of all nodes, this one's included, apart by commas")
	flags.Var(cli.NumberOrAll(&f.node.Journal.Replicas), "replicas", "how many nodes hold each partition and answer for its keys: all, or a number, the same on all nodes")
	flags.Var(cli.Duration(&f.node.Journal.MoveAfter), "move-after", "how long a node may be away before others take the keys that it holds")
	flags.StringVar(&c.TLS.CA, "cluster-ca", "", "PEM file of the authorities that sign the nodes' certificates")
	flags.StringVar(&c.TLS.Cert, "cluster-cert", "", "PEM file of this node's certificate, for server and client")
	flags.StringVar(&c.TLS.Key, "cluster-key", "", "PEM file of its key")
	flags.StringVar(&c.Secret, "cluster-secret", "", "what nodes show each other, 16 bytes or more; on a command line others can see it")
	flags.StringVar(&c.SecretFile, "cluster-secret-file", "", "file that has it")
	flags.BoolVar(&f.clusterInsecure, "cluster-insecure", false, "let nodes connect beyond loopback without TLS or without a secret")
	flags.BoolVar(&f.node.Journal.LeaveCluster, "leave-cluster", false, "without --cluster: make the directory of a cluster's node one of a node alone, with all counts")
	flags.StringVar(&c.URL, "nats", "", "existing NATS to use in place of a cluster: nats://host:port, several apart by commas")
	flags.StringVar(&c.Creds, "nats-creds", "", "file of credentials for it (JWT and key)")
	flags.StringVar(&c.ClientTLS.CA, "nats-ca", "", "PEM file of the authorities of its certificate")
	flags.StringVar(&c.ClientTLS.Cert, "nats-cert", "", "PEM file of a certificate for it")
	flags.StringVar(&c.ClientTLS.Key, "nats-key", "", "PEM file of that one's key")
	flags.BoolVar(&f.natsInsecure, "nats-insecure", false, "connect to it beyond loopback without TLS or without a user")
}

// checkEphemeral refuses what an ephemeral server can't do.
func (f *serveFlags) checkEphemeral(from cli.Sources) error {
	if !f.node.Ephemeral {
		return nil
	}
	if where := from["data"]; where != "" {
		return cli.Usage(fmt.Errorf("%s and %s: an ephemeral server keeps no data: choose one", where, from["ephemeral"]))
	}
	for _, of := range []struct{ flag, why string }{
		{"history", "history is made of the journal"},
		{"history-url", "history is made of the journal"},
		{"cluster", "nodes count together by their journals"},
		{"nats", "nodes count together by their journals"},
		{"replicas", "nodes count together by their journals"},
		{"region", "regions count together by their journals"},
	} {
		if where := from[of.flag]; where != "" && (of.flag != "history" || f.node.History.On) {
			return cli.Usage(fmt.Errorf("%s and %s: %s, and an ephemeral server has none: choose one", where, from["ephemeral"], of.why))
		}
	}
	return nil
}
