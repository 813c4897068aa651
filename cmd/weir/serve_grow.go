package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/node"
)

// A node whose --peers is its own address runs alone. A restart with more --peers makes it a node of a cluster, and one with
// fewer makes it a node alone again. Nothing else differs: a supervisor needs one command for one node and for many.

// errGrown ends a node that is alone, so that its supervisor starts it as one of a cluster.
var errGrown = errors.New("the other nodes of --peers are up: this node ends, to be started again as one of a cluster")

const (
	lookForPeers = time.Second // how often a node alone looks for others
	reachPeer    = time.Second // within which another node accepts a connection
)

// setAlone makes the only node of --peers a node alone, which may have the directory of a cluster's last node.
func (f *serveFlags) setAlone(from cli.Sources) {
	j := &f.node.Journal
	c := &j.Join
	if c.Cluster == "" || len(others(c.Peers, c.Addr)) > 0 || len(c.Peers) == 0 {
		return
	}
	if where := from["peers"]; where != "--peers" && where != cli.SettingVariable("peers") {
		f.growsAt = c.Addr
	}
	insecure := c.Insecure
	*c, j.Replicas, j.LeaveCluster = node.Config{}.Journal.Join, 0, true
	c.Insecure = insecure
}

func others(peers []string, addr string) []string {
	return slices.DeleteFunc(slices.Clone(peers), func(p string) bool { return p == addr })
}

// awaitGrowth returns errGrown when the settings file names further nodes and all of them are up, because the first start
// of a cluster needs all. It returns nil when ctx ends.
func (f *serveFlags) awaitGrowth(ctx context.Context, log *slog.Logger) (grown error) {
	said := ""
	concurrency.Every(ctx, lookForPeers, func() bool {
		peers, err := cli.Setting(f.config, "peers")
		missing := ""
		switch further := others(strings.Split(strings.Join(peers, ","), ","), f.growsAt); {
		case err != nil:
			missing = err.Error()
		case len(peers) == 0 || len(further) == 0:
		default:
			if missing = unreachable(ctx, further); missing == "" {
				grown = errGrown
				return false
			}
		}
		if missing != said {
			log.Warn("this node runs alone until it can join the cluster", "settings", f.config, "waits_for", missing)
			said = missing
		}
		return true
	})
	return grown
}

// unreachable returns why one of the nodes is not up, or "".
func unreachable(ctx context.Context, nodes []string) string {
	for _, addr := range nodes {
		conn, err := (&net.Dialer{Timeout: reachPeer}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
	}
	return ""
}
