package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// put puts a policy, and tells whether another was quicker.
func put(t *testing.T, n *node.Node, limit int, want client.PolicyVersion) (lost bool) {
	t.Helper()
	text := fmt.Sprintf(`{"keys":"login:*","limit":%d,"per":"1h"}`, limit)
	transporttest.Eventually(t, "a policy is put", func() bool {
		_, err := ask(t, n).PutPolicy(t.Context(), "login", text, want)
		refused, _ := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			return true
		case refused == nil || refused.Code != api.CodeVersionMismatch: // in an election it may be put all the same
			return false
		}
		is, err := ask(t, n).Policy(t.Context(), "login")
		lost = err == nil && is.Policy != text
		return err == nil && is.Version > want.Is
	})
	return lost
}

// wantPolicy waits until a node has the policy in a version.
func wantPolicy(t *testing.T, n *node.Node, version uint64, limit int) {
	t.Helper()
	transporttest.Eventually(t, "the policy is known", func() bool {
		is, err := ask(t, n).Policy(t.Context(), "login")
		return err == nil && is.Version == version && is.InUse && strings.Contains(is.Policy, fmt.Sprintf(`"limit":%d,`, limit))
	})
	transporttest.Eventually(t, "it is in use", func() bool {
		limits, err := ask(t, n).Limits(t.Context(), 0)
		return err == nil && len(limits.Limits) == 1 && limits.Limits[0].Limit == uint64(limit) && limits.Limits[0].Version == version
	})
}

// putTogether has all nodes change one version of a policy: one wins, and all have what that one put.
func putTogether(t *testing.T, nodes []*node.Node) {
	t.Helper()
	for version := range uint64(2) {
		lost := make([]bool, len(nodes))
		var putting sync.WaitGroup
		for i, n := range nodes {
			putting.Go(func() { lost[i] = put(t, n, 1+i, client.PolicyVersion{Is: version, New: version == 0}) })
		}
		putting.Wait()
		won := 0
		for i := range nodes {
			if !lost[i] {
				won += 1 + i
			}
		}
		if t.Failed() {
			return
		}
		for _, n := range nodes {
			wantPolicy(t, n, version+1, won) // of two winners the sum is the limit of neither
		}
	}
}

// What was put is there after a restart, in a backup, and where that is restored.
func TestPoliciesByAPIAreKept(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	n := nodetest.Open(t, cfg)
	put(t, n, 5, client.PolicyVersion{})
	put(t, n, 6, client.PolicyVersion{Is: 1})
	nodetest.Close(t, n)
	n = nodetest.Open(t, cfg)
	wantPolicy(t, n, 2, 6)
	answer, err := http.Get("http://" + n.Addr() + "/v1/backup")
	if err != nil {
		t.Fatal(err)
	}
	backup, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	put(t, n, 7, client.PolicyVersion{})
	if _, err := ask(t, n).Restore(t.Context(), bytes.NewReader(backup), api.Replace); err != nil {
		t.Fatal(err)
	}
	wantPolicy(t, n, 4, 6)
	nodetest.Close(t, n)
	off := cfg
	off.Policies.API = node.APIOff
	n = nodetest.Open(t, off)
	if limits, err := ask(t, n).Limits(t.Context(), 0); err != nil || len(limits.Limits) != 0 {
		t.Errorf("%+v, %v with the API off", limits.Limits, err)
	}
	nodetest.Close(t, n)
	other := nodetest.Open(t, config(t, t.TempDir()))
	if _, err := ask(t, other).Restore(t.Context(), bytes.NewReader(backup), api.Merge); err != nil {
		t.Fatal(err)
	}
	wantPolicy(t, other, 3, 6)
}
