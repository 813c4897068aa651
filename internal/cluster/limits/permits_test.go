package limits

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/policy"
)

const (
	permitsMost = 3
	permitsTTL  = 2 * time.Second
)

// atNodes asks any node of a cluster for permits.
type atNodes struct {
	*cluster
	t      testing.TB
	random *rand.Rand
}

func permitOf(key string) []policy.AtOnce {
	return []policy.AtOnce{{Name: "jobs", Key: key, Most: permitsMost, TTL: permitsTTL}}
}

// live is a node that is up; nil: there is none.
func (a *atNodes) live() *admit.Live {
	if n := a.At(a.random.IntN(ClusterSize)); n != nil {
		return n.Live
	}
	return nil
}

func (a *atNodes) Take(key string) (id string, ok bool) {
	holder, live := a.random.Uint64(), a.live()
	if live == nil {
		return "", false
	}
	p, err := live.TakePermit(holder, permitOf(key))
	return fmt.Sprint(key, " ", holder), err == nil && p.OK
}

func (a *atNodes) Renew(id string) (held, answered bool) {
	live := a.live()
	if live == nil {
		return false, false
	}
	holder, list := a.permit(id)
	p, err := live.RenewPermit(holder, list)
	return p.OK, err == nil
}

func (a *atNodes) Release(id string) {
	if live := a.live(); live != nil {
		holder, list := a.permit(id)
		_, _ = live.ReleasePermit(holder, list)
	}
}

func (a *atNodes) permit(id string) (holder uint64, list []policy.AtOnce) {
	var key string
	if _, err := fmt.Sscan(id, &key, &holder); err != nil {
		a.t.Error(err)
	}
	return holder, permitOf(key)
}

// heldPermits are those of a test of a node that is lost.
var heldPermits = []policy.AtOnce{{Name: "jobs", Key: "h:a", Most: permitsMost, TTL: time.Minute}}

// permit asks a node until it gets an answer.
func (c *cluster) permit(t *testing.T, i int, ask func(l *admit.Live) (admit.Permitted, error)) (p admit.Permitted) {
	t.Helper()
	transporttest.Eventually(t, fmt.Sprintf("node %d gets an answer about a permit", i+1), func() (answered bool) {
		var err error
		p, err = ask(c.At(i).Live)
		return err == nil
	})
	return p
}

// takePermits has all permits taken, at one node after the other.
func (c *cluster) takePermits(t *testing.T) {
	for holder := range uint64(permitsMost + 1) {
		p := c.permit(t, int(holder)%ClusterSize, func(l *admit.Live) (admit.Permitted, error) { return l.TakePermit(holder, heldPermits) })
		if p.OK != (holder < permitsMost) {
			t.Fatalf("holder %d: %+v", holder, p)
		}
	}
}

// knowsPermits checks that two nodes know who took them, after the one that decided is gone: none is given beside, and who has one keeps it.
func (c *cluster) knowsPermits(t *testing.T, one, other int) {
	take := func(i int, holder uint64) admit.Permitted {
		return c.permit(t, i, func(l *admit.Live) (admit.Permitted, error) { return l.TakePermit(holder, heldPermits) })
	}
	renew := func(i int, holder uint64) admit.Permitted {
		return c.permit(t, i, func(l *admit.Live) (admit.Permitted, error) { return l.RenewPermit(holder, heldPermits) })
	}
	if p := take(one, 9); p.OK || p.Held != permitsMost || p.Wait <= 0 {
		t.Fatalf("one more: %+v", p)
	}
	if p := renew(other, 1); !p.OK {
		t.Error("a permit was lost with the node that decided")
	}
	if p := renew(one, 9); p.OK {
		t.Error("a permit that was denied was renewed")
	}
	c.permit(t, one, func(l *admit.Live) (p admit.Permitted, err error) {
		_, err = l.ReleasePermit(2, heldPermits)
		return p, err
	})
	if p := take(other, 5); !p.OK {
		t.Errorf("once one was given back: %+v", p)
	}
}
