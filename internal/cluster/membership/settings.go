package membership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// differAfter is how long settings may differ: a file that is changed on one node after the other does meanwhile.
const differAfter = 30 * time.Second

// Settings are hashes of what a node is set to and all nodes of a cluster need alike, by name: a flag. They are in the node's entry of the Registry.
type Settings map[string]uint64

// differing says in which settings a node differs from this one.
type differing struct {
	names  []string
	since  time.Time
	logged bool
}

// CompareSettings has the settings of this node compared with the other nodes' from now on. own returns them as they are.
func (v *View) CompareSettings(own func() Settings) { v.settings.Store(&own) }

// ownSettings are this node's; nil: they are not known yet.
func (v *View) ownSettings() Settings {
	if own := v.settings.Load(); own != nil {
		return (*own)()
	}
	return nil
}

// compareSettings compares the settings of the nodes that are here. A setting that only one of two nodes names comes from another build.
func (v *View) compareSettings(now time.Time, own Settings, list []Holder) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.differ
	v.differ = map[string]differing{}
	for _, h := range list {
		if h.Self || !h.Here {
			continue
		}
		d := was[h.Node]
		d.names = nil
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if is, named := h.Settings[name]; named && is != own[name] {
				d.names = append(d.names, name)
			}
		}
		switch {
		case len(d.names) == 0 && d.logged:
			v.cfg.Log.Info("the settings of a node agree with this one again", "node", h.Node)
			continue
		case len(d.names) == 0:
			continue
		case d.since.IsZero():
			d.since = now
		case !d.logged && now.Sub(d.since) >= differAfter:
			v.cfg.Log.Warn("the settings of a node differ from this one: all nodes of a cluster need the same", "node", h.Node, "settings", strings.Join(d.names, ", "))
			d.logged = true
		}
		v.differ[h.Node] = d
	}
}

// First reports whether this node is the first, by name, of the nodes that are here with the same value of a setting. It is for work that one
// of them does for all, and that two may do for a while: nodes may not agree which nodes are here.
func (v *View) First(setting string) bool {
	list := v.List()
	self := slices.IndexFunc(list, func(h Holder) bool { return h.Self })
	return self >= 0 && !slices.ContainsFunc(list[:self], func(h Holder) bool { return h.Here && h.Settings[setting] == list[self].Settings[setting] })
}

// SettingsAlarms name the nodes whose settings differ from this one's. A difference counts only after the time that a change of a file on
// all nodes takes.
func (v *View) SettingsAlarms(now time.Time) (list []api.Alarm) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(v.differ)) {
		if d := v.differ[node]; now.Sub(d.since) >= differAfter {
			list = append(list, api.Alarm{Code: "settings_differ", Message: fmt.Sprintf(
				"node %s has another %s than this one since %s: give all nodes of a cluster the same", node, strings.Join(d.names, ", "), d.since.UTC().Format(time.RFC3339))})
		}
	}
	return list
}

// StoreWatch finds out whose replicas of the journal store what they are sent. Heartbeats carry what each node knows of its own: the servers'
// own view of each other is slower, and ends with the quorum, when it is needed most.
type StoreWatch struct {
	// Own is how this node's server stores; known is false of an existing NATS.
	Own func() (state replica.StoreState, known bool)
	// Followers are the replicas as the leader of the journal sees them; none: there is no leader.
	Followers func(context.Context) ([]replica.ReplicaState, error)

	Stores *replica.Stores // that judges what was found
}

// Run looks at the replicas until ctx is done.
func (w *StoreWatch) Run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { // a connection to a server that stands still may block
		concurrency.Every(ctx, replica.StoresEvery, func() bool {
			w.lookAtReplicas(ctx)
			return true
		})
	})
	concurrency.Every(ctx, replica.StoresEvery, func() bool {
		if own, known := w.Own(); known {
			w.Stores.Look(time.Now(), own)
		}
		return true
	})
}

// lookAtReplicas asks the leader of the journal which replicas are current. While there
// is no leader, only the nodes' own reports are known.
func (w *StoreWatch) lookAtReplicas(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replica.StoresEvery)
	defer cancel()
	followers, err := w.Followers(ctx)
	if err != nil || len(followers) == 0 {
		return
	}
	w.Stores.See(time.Now(), followers)
}
