package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// names are a zone of DNS whose addresses change.
type names struct {
	mu sync.Mutex
	ip map[string]string
}

func (z *names) move(name, ip string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ip[name] = ip
}

// ServeDNS implements dns.Handler.
func (z *names) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answer := new(dns.Msg).SetReply(r)
	ip := z.ip[strings.TrimSuffix(strings.ToLower(r.Question[0].Name), ".")]
	if ip == "" {
		answer.Rcode = dns.RcodeNameError
	} else if r.Question[0].Qtype == dns.TypeA {
		answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(ip)}}
	}
	_ = w.WriteMsg(answer) // the resolver asks again
}

// Nodes that know each other by names find each other at their first start, although names appear one after the other, and again at
// new addresses: one that moves, and two that move while the third runs on.
func TestPeersByName(t *testing.T) {
	zone := &names{ip: map[string]string{}}
	socket, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: socket, Handler: zone}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before })

	_, port, err := net.SplitHostPort(transporttest.Addrs(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	network, last := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250)), 0
	name := func(i int) string { return fmt.Sprintf("weir-%d.weir.test", i) }
	var peers []string
	for i := range 3 {
		peers = append(peers, name(i)+":"+port)
	}
	c := transporttest.New(t, 3, func(i int, cfg *transport.Config) {
		cfg.Addr, cfg.Peers, cfg.Insecure = peers[i], peers, true
	})
	move := func(nodes ...int) {
		for _, i := range nodes {
			last++
			c.Configs[i].Listen = fmt.Sprint(network, last, ":", port)
			zone.move(name(i), fmt.Sprint(network, last))
		}
	}
	connected := func(what string) {
		t.Helper()
		transporttest.Eventually(t, what, func() bool {
			for _, n := range c.Nodes {
				if s, err := n.Status(t.Context()); err != nil || len(s.Servers) != 3 {
					return false
				}
			}
			return true
		})
	}
	for i := range c.Configs {
		c.Configs[i].Listen = fmt.Sprint(network, i+1, ":", port)
	}
	last = 3
	go func() { // while all look for all
		for i := range 3 {
			zone.move(name(i), fmt.Sprint(network, i+1))
		}
	}()
	c.Up(t, 0, 1, 2)
	connected("three nodes")
	c.Down(2)
	move(2)
	c.Up(t, 2)
	connected("one at another address")
	c.Down(0, 1)
	move(0, 1)
	c.Up(t, 0, 1)
	connected("two at other addresses")
}
