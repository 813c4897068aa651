package transport

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
)

// codeNotMember is JetStream's error of a server that has no vote.
const codeNotMember = 10044

// Remove takes a node's vote, for good. The others' quorum is counted without it. Each of its replicas moves to a node
// that has none of that stream, if there is one. had reports whether the node had a vote. Remove returns when no
// stream counts on the node any more.
//
// The caller must know whether the node is alive. A node that is alive, or comes back, is a client of the others, and
// after five minutes a voter again. After an error the removal may still happen, and the caller should ask again. With
// an existing NATS there is nothing to remove.
func (n *Node) Remove(ctx context.Context, node string) (had bool, now []api.ClusterStream, err error) {
	if !n.Embedded() || n.cfg.Cluster == "" {
		return false, nil, nil
	}
	conn, err := nats.Connect("", nats.InProcessServer(n), nats.UserInfo(systemUser, ""), nats.NoReconnect())
	if err != nil {
		return false, nil, fmt.Errorf("join: remove: %w", err)
	}
	defer conn.Close()
	if had, err = n.takeVote(ctx, conn, node); err != nil {
		return false, nil, fmt.Errorf("join: remove %s: %w", node, err)
	}
	wait := n.waiting("waiting for the streams to go on without " + node)
	for began := time.Now(); ; {
		var whole bool
		if now, whole, err = n.placements(ctx); err == nil {
			with := keptBy(now, node)
			if with == "" && (whole || time.Since(began) > copyTime) {
				return had, now, nil
			}
			err = fmt.Errorf("%s is kept by too few, or to be kept by it", with)
		}
		if err := wait.again(ctx, between, err); err != nil {
			return had, now, fmt.Errorf("join: remove: %w", err)
		}
	}
}

// copyTime is how long Remove waits until what the node kept is kept by another: a
// large journal takes longer, and is copied anyway.
const copyTime = 5 * time.Second

func (n *Node) takeVote(ctx context.Context, conn *nats.Conn, node string) (had bool, err error) {
	request, err := json.Marshal(natsserver.JSApiMetaServerRemoveRequest{Peer: peerOf(node)})
	if err != nil {
		return false, err
	}
	wait := n.waiting("waiting for a leader that takes the vote of " + node)
	for {
		var answer natsserver.JSApiMetaServerRemoveResponse
		asking, cancel := context.WithTimeout(ctx, probe)
		msg, err := conn.RequestWithContext(asking, natsserver.JSApiRemoveServer, request)
		cancel()
		if err == nil {
			err = json.Unmarshal(msg.Data, &answer)
		}
		switch {
		case err != nil:
		case answer.Error == nil:
			return true, nil
		case answer.Error.ErrCode == codeNotMember:
			return false, nil // or an attempt before took it, whose answer was lost
		default:
			err = errors.New(answer.Error.Description)
		}
		if err := wait.again(ctx, between, err); err != nil {
			return false, err
		}
	}
}

// placements lists all streams with the nodes that keep them. whole reports whether these are as many as there can be,
// and whether those that are up have all messages.
func (n *Node) placements(ctx context.Context) (list []api.ClusterStream, whole bool, err error) {
	whole = true
	ctx, cancel := context.WithTimeout(ctx, probe)
	defer cancel()
	streams := n.js.ListStreams(ctx)
	for info := range streams.Info() {
		p := api.ClusterStream{Name: info.Config.Name}
		if info.Cluster == nil || info.Cluster.Leader == "" {
			return nil, false, fmt.Errorf("%s has no leader", p.Name)
		}
		p.Nodes = append(p.Nodes, info.Cluster.Leader)
		for _, replica := range info.Cluster.Replicas {
			p.Nodes = append(p.Nodes, replica.Name)
			whole = whole && (replica.Current || replica.Offline)
		}
		whole = whole && len(p.Nodes) >= min(info.Config.Replicas, n.Size())
		slices.Sort(p.Nodes)
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b api.ClusterStream) int { return strings.Compare(a.Name, b.Name) })
	return list, whole, streams.Err()
}

// keptBy is a stream that counts on a node, or "". A server that its leader has
// never seen is named by its id.
func keptBy(list []api.ClusterStream, node string) string {
	for _, p := range list {
		for _, name := range p.Nodes {
			if name == node || strings.Contains(name, peerOf(node)) {
				return p.Name
			}
		}
	}
	return ""
}

// peerOf is a server's id among JetStream's voters. By its name it is known only to
// a leader that has seen it alive.
func peerOf(node string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(node))
	id := make([]byte, 8)
	for i := range id {
		id[i] = digits[int(sum[i])%len(digits)]
	}
	return string(id)
}

// sizeAge is for how long Size goes by what it found: it is asked by every decision
// of a limit that nodes share.
const sizeAge = time.Second

// Size returns how many nodes the cluster has, up or not, as its voters know. It changes when a node joins, when one
// is removed, and after a restart with other Peers. It is 0 with an existing NATS. It may be a second old.
func (n *Node) Size() int {
	if !n.Embedded() {
		return 0
	}
	if n.cfg.Cluster == "" {
		return 1
	}
	now := time.Now().UnixNano()
	if last := n.sized.Load(); last == 0 || now-last > int64(sizeAge) {
		n.sized.Store(now)
		size := int(n.size.Load()) // while it does not store it knows of none
		if info, err := n.server.Load().Jsz(nil); err == nil && info.Meta != nil && info.Meta.Size > 0 {
			size = info.Meta.Size
		}
		n.size.Store(int64(size))
	}
	return int(n.size.Load())
}

// A node of a cluster whose files are damaged starts as one that lost its disk: without them. It then has no vote that
// counts until the others have given it what they have. With them it could be elected. The others would then delete
// what it lacks, because they follow their leader.
//
// It does so only while enough other nodes say that they are here and have everything: then they have what this one
// lacks, and a leader. If all nodes find damage at once, as after a mistake of the check, no node is here, and nothing
// is moved.

// quarantineSuffix is what is added to the name of a directory in quarantine, and the time.
const quarantineSuffix = ".damaged"

// Quarantined are where damaged files of a node with Config.Dir are, until Settled.
func Quarantined(dir string) ([]string, error) { return filepath.Glob(dir + quarantineSuffix + "*") }

// othersTime is how long the others are waited for.
const othersTime = time.Minute

// quarantine reads the files of a cluster's node, and moves them out of the way if
// they are damaged.
func (n *Node) quarantine(ctx context.Context) (err error) {
	dir := n.cfg.Dir
	if n.damage, err = CheckDisk(dir, n.cfg.Unbroken); err != nil || len(n.damage) == 0 {
		return err
	}
	logged := 0 // damage to parts that a log still has
	for _, damage := range n.damage {
		n.cfg.Logger.Error("this node's replica is damaged", "file", damage.Path, "damage", damage.What)
		if damage.Index != "" {
			logged++
		}
	}
	if logged == len(n.damage) {
		return n.dropIndexes()
	}
	if err := n.awaitOthers(ctx); err != nil {
		return fmt.Errorf("this node's replica is damaged, nothing of it was changed, and it can't be copied again for now: %w: %s", err, n.damage[0])
	}
	to := dir + quarantineSuffix + time.Now().UTC().Format("-20060102T150405.000")
	n.cfg.Logger.Warn("moved this node's damaged replica to quarantine; copying it from the other nodes", "quarantine", to)
	return os.Rename(dir, to)
}

// awaitOthers returns when enough others are here that have all.
func (n *Node) awaitOthers(ctx context.Context) error {
	if n.cfg.Waiting != nil {
		n.cfg.Waiting("waiting for other nodes that have what this node's damaged replica lacks")
	}
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	for {
		here, needed, err := n.lookAtOthers(ctx)
		if err == nil && here >= needed {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%d other running nodes have all data, and %d are needed: start them first; if they report the same, read \"A damaged disk\" in docs/cluster-operations.md before anything else", here, needed)
		}
		if concurrency.Sleep(ctx, lookEvery) != nil {
			return err
		}
	}
}

// dropIndexes makes the server read streams that are damaged at their end.
func (n *Node) dropIndexes() error {
	for _, damage := range n.damage {
		if err := os.Remove(damage.Index); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Damage is what was wrong with the files that this node found when it was opened.
// What was damaged is read from a log, or all were quarantined.
func (n *Node) Damage() []Damage { return n.damage }

// Settled stores what the next Open checks this node's files by, and removes files that were quarantined. From now on
// this node answers that it has all streams. The caller has made all streams, and found that nothing is missing from
// them.
func (n *Node) Settled(ctx context.Context) error {
	if !n.Embedded() || n.cfg.Cluster == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	groups, streams := map[string]string{}, n.js.ListStreams(ctx)
	for stream := range streams.Info() {
		if at := stream.Cluster; at != nil && stream.Config.Replicas > 1 && stream.Config.MaxAge == 0 && n.keeps(at) {
			groups[stream.Config.Name] = at.RaftGroup
		}
	}
	if err := streams.Err(); err != nil {
		return err
	}
	if err := NoteDisk(n.cfg.Dir, groups); err != nil {
		return err
	}
	n.here.Store(true)
	if err := n.tellHere(); err != nil {
		return err
	}
	if n.cfg.Unchecked {
		return nil // a person's word, and a person's to remove
	}
	quarantined, err := Quarantined(n.cfg.Dir)
	for _, dir := range quarantined {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
