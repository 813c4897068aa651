//go:build linux && netns

package main

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/testsupport"
)

// What a link does to packets, as tc has it. A queue that is shorter than any packet
// loses all.
const (
	lossOfAll = "bfifo limit 1"
	farAway   = "netem delay 50ms 10ms loss 5%"
	narrow    = "tbf rate 2mbit burst 4kb latency 50ms"
)

// As TestClusterCrash, and each node has a network namespace of its own, TLS to the
// others and their secret: packets are lost and connections are left half open,
// which proxies can't do. It needs root and iproute2, and is compiled by make cluster-netns
// alone (the tag netns), which checks that they are there.
func TestClusterNamespaces(t *testing.T) {
	c, n := newNamespacedProcesses(t)
	crashCluster(t, c, inPair(n.faults(n.shaped), 0), nil)
}

func TestClusterNamespacesOfShares(t *testing.T) {
	c, n := newNamespacedProcesses(t, "--replicas", "2", "--move-after", "1s")
	crashCluster(t, c, inPair(n.faults(n.shaped), 1), nil)
}

func newNamespacedProcesses(t *testing.T, flags ...string) (*processes, *namespaces) {
	t.Helper()
	n, authority := newNamespaces(t), testsupport.NewAuthority(t)
	var ips []net.IP
	addrs := make([]string, clusterSize)
	for i := range addrs {
		ip, addr := namespacedAddr(i)
		addrs[i], ips = addr, append(ips, ip)
	}
	c := newProcessesIn(t, n, addrs, addrs, flags...)
	for i := range c.own {
		c.own[i] = []string{"--cluster-tls", issueDir(t, authority, c.name(i), ips)}
	}
	return c, n
}

// faults are those that this kernel can do; poor is what to do with a link that becomes poor.
func (n *namespaces) faults(poor func(name, discipline string) func(c *processes, i int)) []fault {
	faults := []fault{killAndRestart, stopAndGoOn, n.linkDown(6 * time.Second), n.linkDown(20 * time.Second),
		{name: "nothing arrives at it for 6 s", do: n.loss(true, false)},
		{name: "nothing arrives from it for 6 s", do: n.loss(false, true)},
	}
	for _, link := range []struct{ name, discipline string }{
		{"50 ms away, and 5 % of packets lost", farAway},
		{"a link of 2 Mbit/s", narrow},
	} {
		if n.has(link.discipline) {
			faults = append(faults, fault{name: link.name, do: poor(link.name, link.discipline)})
		} else {
			n.t.Logf("LEFT OUT, as this kernel can't do it (tc qdisc %s): %s", link.discipline, link.name)
		}
	}
	return faults
}

func (n *namespaces) linkDown(d time.Duration) fault {
	return fault{name: fmt.Sprint("link down for ", d), do: func(c *processes, i int) {
		n.Cut(c.name(i), true)
		<-time.After(d)
		n.Cut(c.name(i), false)
	}}
}

// slowed is a link that is poor for 6 s, and may have more to carry than it can.
func (n *namespaces) slowed(_, discipline string) func(c *processes, i int) {
	return func(_ *processes, i int) {
		n.shape(i, true, true, discipline)
		<-time.After(6 * time.Second)
		n.unshape(i, true, true)
	}
}

func (n *namespaces) loss(to, from bool) func(c *processes, i int) {
	return func(_ *processes, i int) {
		n.shape(i, to, from, lossOfAll)
		<-time.After(6 * time.Second)
		n.unshape(i, to, from)
	}
}

// shaped is a link that is poor, over which nodes must agree nevertheless.
func (n *namespaces) shaped(name, discipline string) func(c *processes, i int) {
	return func(c *processes, i int) {
		n.shape(i, true, true, discipline)
		<-time.After(3 * time.Second)
		n.t.Logf("%6.2f s to converge meanwhile: %s of %s", c.converge(name).Seconds(), name, c.name(i))
		n.unshape(i, true, true)
	}
}

// issueDir makes the directory that --cluster-tls names, with files of an authority for a node.
func issueDir(t testing.TB, authority *testsupport.Authority, name string, ips []net.IP) string {
	t.Helper()
	dir := t.TempDir()
	cert, key := authority.Issue(name, ips, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	for to, from := range map[string]string{"ca.crt": authority.File(), "tls.crt": cert, "tls.key": key} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
