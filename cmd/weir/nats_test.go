package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Two nodes meet in a NATS server that is not theirs, which asks for a user.
func TestNodesMeetInNATS(t *testing.T) {
	t.Parallel()
	existing, err := natsserver.NewServer(&natsserver.Options{
		ServerName: "existing", Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true,
		Username: "weir", Password: "password", JetStream: true, StoreDir: t.TempDir(), SyncAlways: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	existing.Start()
	t.Cleanup(func() {
		existing.Shutdown()
		existing.WaitForShutdown()
	})
	if !existing.ReadyForConnections(transporttest.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	url := strings.Replace(existing.ClientURL(), "nats://", "nats://weir:password@", 1)
	var nodes []*process
	var dirs []string
	for i := range 2 {
		dirs = append(dirs, t.TempDir())
		nodes = append(nodes, startProcess(t, dirs[i], "--nats", url, "--node", fmt.Sprint("n", i+1)))
	}
	for i, p := range nodes {
		if !p.post("a", uint64(i+1), "", true) {
			t.Fatalf("n%d took no hit", i+1)
		}
	}
	third := launch(t, t.TempDir(), "--nats", url, "--node", "n1")
	if third.addr = <-third.serving; third.addr == "" {
		if log := <-third.log; third.Wait() == nil || !strings.Contains(log, "another node that runs is called n1") {
			t.Errorf("a second n1 was not refused:\n%s", log)
		}
	} else { // n1 was silent for so long that it was late
		for _, p := range []*process{nodes[0], third} {
			transporttest.Eventually(t, "an alarm says that there are two of that name", func() bool {
				r, ok := p.ready()
				return ok && r.alarm("node_name_twice", "origin")
			})
		}
		if _, err := third.end(t, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	if _, err := nodes[1].end(t, syscall.SIGKILL); err == nil {
		t.Fatal("the process ended well in spite of SIGKILL")
	}
	nodes[1] = startProcess(t, dirs[1], "--nats", url, "--node", "n2")
	for _, p := range nodes {
		transporttest.Eventually(t, "both count both hits", func() bool { return p.count(t, "a") == 3 })
	}
	code, stdout, stderr := weirOf(t, nil, "", "cluster", "--server", nodes[0].addr)
	if code != exitOK || !strings.Contains(stdout, "existing NATS, seen by n1") || !strings.Contains(stdout, "\nn2 ") || strings.Contains(stdout, "LATE") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, p := range nodes {
		if log, err := p.end(t, syscall.SIGTERM); err != nil || strings.Contains(log, "password") {
			t.Errorf("%v\n%s", err, log)
		}
	}
}
