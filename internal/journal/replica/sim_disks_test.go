package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
)

// errSimDisk is what a replica says that has failed to store.
var errSimDisk = errors.New("no space left on device")

// simDisks are the faults of disks. One at a time lies.
var simDisks = []Disk{DiskSound, DiskFull, DiskFull, DiskBroken, DiskSlow, DiskTorn, DiskLying}

// harmDisk changes a disk, or all at once: a full disk is often that of a template.
func (c *simCluster) harmDisk() {
	disk, nodes := simDisks[c.w.IntN(len(simDisks))], c.nodes
	if disk == DiskLying || c.w.Chance(.8) {
		nodes = []*simNode{c.nodes[c.w.IntN(len(c.nodes))]}
	}
	for _, n := range nodes {
		if c.log.SetDisk(n.name, disk) {
			c.w.Logf("the disk of %s is now %d", n.name, disk)
		}
	}
}

// watchStores is Journal.runStores and runHealing.
func (n *simNode) watchStores(run int) bool {
	if n.run != run {
		return false
	}
	now := n.c.now()
	stores, have, hasReplica := n.c.log.Stores(n.name)
	if !hasReplica {
		n.checkSignals(now)
		return true
	}
	own := StoreState{Led: n.c.log.Led()}
	switch {
	case !stores:
		own.Wrong, own.Failed = errSimDisk, true
	case have < n.looked:
		own.Wrong = errors.New("stream catching up")
	}
	n.looked = n.c.log.Last()
	n.stores.Look(now, own)
	why, _ := n.stores.OwnWrong(now)
	for _, other := range n.c.nodes {
		if other != n {
			n.c.net.Send(n.name, other.name, func() { other.stores.Hear(n.c.now(), n.name, why) })
		}
	}
	if _, due := n.stores.Due(now); due && n.c.log.HasSpace(n.name) {
		n.c.w.Logf("%s starts its server again", n.name)
		n.c.log.Restart(n.name)
		n.stores.Started(now)
	}
	n.checkSignals(now)
	return true
}

// simSignal is how long a node has to say of another that it does not store: it is announced
// every second, and messages are lost.
const simSignal = 12 * time.Second

// checkSignals checks the alarms while a fault lasts: own ones at once, those of others
// when they could be heard of long enough.
func (n *simNode) checkSignals(now time.Time) {
	alarms := n.stores.Alarms(now, n.name)
	has := func(code string) bool {
		return slices.ContainsFunc(alarms, func(a api.Alarm) bool { return a.Code == code })
	}
	if stores, _, _ := n.c.log.Stores(n.name); !stores && !has("replica_failing") && !errors.Is(n.stores.own.Wrong, errStarting) {
		n.c.failf("%s does not store, and says nothing: %+v", n.name, alarms)
	}
	silent := false
	for _, other := range n.c.nodes {
		stores, _, _ := n.c.log.Stores(other.name)
		if other == n || stores || !other.ready || !n.c.net.Reach(n.name, other.name) {
			delete(n.mute, other.name)
			continue
		}
		if n.mute[other.name].IsZero() {
			n.mute[other.name] = now
		}
		silent = silent || now.Sub(n.mute[other.name]) > simSignal
	}
	if silent && !has("replica_missing") {
		n.c.failf("%s does not say that another does not store: %+v", n.name, alarms)
	}
}

// healDisks ends all faults of disks.
func (c *simCluster) healDisks() {
	for _, n := range c.nodes {
		c.log.SetDisk(n.name, DiskSound)
	}
}

// checkReplicas checks, when nobody writes any more, that all have the same.
func (c *simCluster) checkReplicas() {
	for _, n := range c.nodes {
		if _, have, _ := c.log.Stores(n.name); have != c.log.Last() {
			c.failf("the replica of %s has messages up to %d, of %d", n.name, have, c.log.Last())
		}
	}
}

// simDurable is how long a flush may wait for its acknowledgement where nothing fails.
const simDurable = 3 * time.Second

// checkHealthy is the oracle of every fault: some seconds after the last one each node
// runs, what it counts becomes durable, the replicas store, and no signal says otherwise;
// noneLate is its other half.
func (c *simCluster) checkHealthy() {
	if !c.log.Led() {
		c.failf("the log has no leader long after all is healed")
	}
	for _, n := range c.nodes {
		if !n.ready {
			c.failf("%s does not run long after all is healed", n.name)
			continue
		}
		if n.sending != nil && c.now().Sub(n.f.Began()) > simDurable {
			c.failf("%s waits for flush %d since %v", n.name, n.sending.flush, n.f.Began().Sub(simBegin))
		}
		if stores, _, _ := c.log.Stores(n.name); !stores {
			c.failf("the replica of %s does not store long after all is healed", n.name)
		}
		if alarms := n.stores.Alarms(c.now(), n.name); len(alarms) > 0 {
			c.failf("%s has alarms long after all is healed: %+v", n.name, alarms)
		}
	}
}
