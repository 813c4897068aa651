//go:build linux && netns

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// namespaces are a network of packets: each node has a network namespace, and one
// more is what is between them.
//
//	n1: eth0 --- port1 | bridge1 | up1 --- down1 | bridge | down2 --- up2 | bridge2 | port2 --- eth0 :n2
//
// A node has a bridge of its own there, so that packets can vanish on the way to it
// (at port1) and on the way from it (at up1) after they have left its kernel,
// which would notice a loss at eth0 itself and send again soon.
//
// Nothing of it is in the machine's own network: no address can clash with one of that,
// and all is gone with the namespaces. This process reaches a node's HTTP, on
// loopback in its namespace, by threads that have entered those.
type namespaces struct {
	t     *testing.T
	dials []chan dial // of a thread in each node's namespace
}

// dial is what one of these threads is asked for.
type dial struct {
	addr string
	conn chan<- net.Conn // nil: not reached
}

// Names of namespaces begin with this and the id of the process that made them.
const namespacePrefix = "weir-test-"

func namespace(name string) string { return fmt.Sprint(namespacePrefix, os.Getpid(), "-", name) }

// between is the namespace of bridges.
const between = "between"

func namespacedAddr(i int) (ip net.IP, addr string) {
	ip = net.IPv4(10, 0, 0, byte(i+1))
	return ip, net.JoinHostPort(ip.String(), "7000")
}

func newNamespaces(t *testing.T) *namespaces {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("network namespaces need root: run this as root")
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("network namespaces need %s: apt-get install iproute2 (%v)", tool, err)
		}
	}
	removeNamespaces(t, func(pid int) bool { return syscall.Kill(pid, 0) != nil })
	t.Cleanup(func() { removeNamespaces(t, func(pid int) bool { return pid == os.Getpid() }) })

	n := &namespaces{t: t}
	mustRun(t, "ip netns add "+namespace(between))
	mustRun(t, "ip -n "+namespace(between)+" link add bridge type bridge")
	mustRun(t, "ip -n "+namespace(between)+" link set bridge up")
	for i := range clusterSize {
		n.add(i)
	}
	return n
}

// add makes the namespace of node i, and its link to the others.
func (n *namespaces) add(i int) {
	n.t.Helper()
	ip, _ := namespacedAddr(i)
	node, k := namespace(n.node(i)), i+1
	mustRun(n.t, "ip netns add "+node)
	for _, args := range []string{
		fmt.Sprintf("link add port%d type veth peer name eth0 netns %s", k, node),
		fmt.Sprintf("link add up%d type veth peer name down%d", k, k),
		fmt.Sprintf("link add bridge%d type bridge", k),
		fmt.Sprintf("link set port%d master bridge%d", k, k),
		fmt.Sprintf("link set up%d master bridge%d", k, k),
		fmt.Sprintf("link set down%d master bridge", k),
		fmt.Sprintf("link set bridge%d up", k),
		fmt.Sprintf("link set port%d up", k),
		fmt.Sprintf("link set up%d up", k),
		fmt.Sprintf("link set down%d up", k),
	} {
		mustRun(n.t, "ip -n "+namespace(between)+" "+args)
	}
	mustRun(n.t, fmt.Sprintf("ip -n %s addr add %s/24 dev eth0", node, ip))
	mustRun(n.t, "ip -n "+node+" link set eth0 up")
	mustRun(n.t, "ip -n "+node+" link set lo up")

	dials := make(chan dial)
	n.dials = append(n.dials, dials)
	go n.dialWithin(node, dials)
}

func (n *namespaces) node(i int) string { return fmt.Sprintf("n%d", i+1) }

// within has ip become the node's process, in its namespace.
func (n *namespaces) within(i int) []string {
	return []string{"ip", "netns", "exec", namespace(n.node(i))}
}

// Cut takes the link to a node down: what is sent meanwhile vanishes, and TCP sends
// it again when it thinks it is time.
func (n *namespaces) Cut(node string, cut bool) {
	state := "up"
	if cut {
		state = "down"
	}
	mustRun(n.t, fmt.Sprintf("ip -n %s link set port%s %s", namespace(between), strings.TrimPrefix(node, "n"), state))
}

// shape gives a queueing discipline to the link to node i, the one from it, or both;
// unshape takes it away.
func (n *namespaces) shape(i int, to, from bool, discipline string) {
	if to {
		mustRun(n.t, fmt.Sprintf("tc -n %s qdisc replace dev port%d root %s", namespace(between), i+1, discipline))
	}
	if from {
		mustRun(n.t, fmt.Sprintf("tc -n %s qdisc replace dev up%d root %s", namespace(between), i+1, discipline))
	}
}

func (n *namespaces) unshape(i int, to, from bool) {
	if to {
		mustRun(n.t, fmt.Sprintf("tc -n %s qdisc del dev port%d root", namespace(between), i+1))
	}
	if from {
		mustRun(n.t, fmt.Sprintf("tc -n %s qdisc del dev up%d root", namespace(between), i+1))
	}
}

// has is whether this kernel has a queueing discipline.
func (n *namespaces) has(discipline string) bool {
	if _, err := command("tc -n " + namespace(between) + " qdisc replace dev port1 root " + discipline); err != nil {
		return false
	}
	n.unshape(0, true, false)
	return true
}

// reach forwards connections on loopback to addr in the namespace of node i, until the
// test ends.
func (n *namespaces) reach(i int, addr string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Error(err)
		return addr
	}
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go n.forward(from, i, addr)
		}
	}()
	return l.Addr().String()
}

func (n *namespaces) forward(from net.Conn, i int, addr string) {
	defer from.Close()
	reached := make(chan net.Conn)
	select {
	case n.dials[i] <- dial{addr, reached}:
	case <-n.t.Context().Done():
		return
	}
	to := <-reached
	if to == nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from) // ends when either is closed
		to.Close()
		from.Close()
	}()
	_, _ = io.Copy(from, to)
}

// dialWithin does what it is asked for in a namespace, until the test ends. Its
// thread is of no use to others afterwards, and ends with it, as it is never unlocked.
func (n *namespaces) dialWithin(namespace string, dials <-chan dial) {
	runtime.LockOSThread()
	file, err := os.Open("/run/netns/" + namespace)
	if err == nil {
		err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
		file.Close()
	}
	if err != nil {
		n.t.Errorf("enter %s: %v", namespace, err)
	}
	for {
		select {
		case d := <-dials:
			var conn net.Conn
			if err == nil {
				conn, _ = net.DialTimeout("tcp", d.addr, time.Second) // it may not be up, or not any more
			}
			d.conn <- conn
		case <-n.t.Context().Done():
			return
		}
	}
}

// removeNamespaces ends what runs in the namespaces that processes for which of is
// true have made, and removes them: the test's own at its end, those of
// killed tests at the next one's beginning.
func removeNamespaces(t *testing.T, chosen func(pid int) bool) {
	t.Helper()
	list, err := command("ip netns list")
	if err != nil {
		t.Error(err)
	}
	for _, line := range strings.Split(list, "\n") {
		name, _, _ := strings.Cut(line, " ") // an id may follow
		rest, ours := strings.CutPrefix(name, namespacePrefix)
		maker, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(maker)
		if !ours || err != nil || !chosen(pid) {
			continue
		}
		within, err := command("ip netns pids " + name)
		if err != nil {
			t.Error(err)
		}
		for _, field := range strings.Fields(within) {
			if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if _, err := command("ip netns delete " + name); err != nil {
			t.Error(err)
		}
	}
}

func mustRun(t *testing.T, line string) {
	t.Helper()
	if _, err := command(line); err != nil {
		t.Fatal(err)
	}
}

// command runs a command of words without spaces, and returns what it said.
func command(line string) (string, error) {
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return string(out), nil
}
