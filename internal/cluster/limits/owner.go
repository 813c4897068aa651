package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/wire"
)

// This file decides which node owns the limits of a group of keys.
//
// The owner is the node of the last claim of the group in the journal. A claim's place in the journal is its
// token. An owner journals each admission and each grant. It sends the answer only once it has
// followed the journal up to there and found no later claim. A new owner follows the journal up to its own claim before
// it decides. So two owners never both answer, whatever their clocks, pauses and networks do. An owner may be
// replaced at any time: a wrong suspicion costs a moment, never an admission too many.
//
// Who should claim needs no agreement:
//
//   - Each node announces four times a second that it is up, and which groups it owns. A node of which nothing
//     came for silentAfter is taken to be down.
//   - A group without an owner that is up is claimed by the first of the nodes that are up, by rendezvous. A node that sees
//     no majority claims nothing.
//   - An owner that is not that node, and one that stops, hands the group over, if the next owner follows the journal. It
//     decides nothing new, waits until the journal has what it decided, and asks the next owner to claim the group.
//   - Every node reads the questions about every group. Where it is not the owner it says so at once, and the question is
//     asked again. So no question is lost while a group changes hands.
const (
	announceEvery = 250 * time.Millisecond

	// silentAfter is after how long without an announcement a node is taken to be down.
	silentAfter = 2 * time.Second

	// settledAfter is for how long a node must be up before groups are handed over to it.
	settledAfter = time.Second

	// handOverTime bounds one handover, and probeTime the question before it whether the next owner follows the journal.
	handOverTime = ownerTime
	probeTime    = 500 * time.Millisecond

	// maxNodes bounds the nodes of which announcements are kept.
	maxNodes = 1024

	// recallTime is how long a handover waits for what nodes were granted.
	recallTime = 250 * time.Millisecond

	recallSubject = "weir.limits.recall"
	ownersSubject = "weir.owners"
	takeSubject   = "weir.owners.take." // the origin of the node follows
)

// peers are the nodes that are up, and what they own, as this node knows it.
type peers struct {
	mu    sync.Mutex
	nodes map[string]announced // other nodes, by origin
	began time.Time
}

// announced is what a node said last.
type announced struct {
	origin string
	node   string
	at     time.Time
	since  time.Time // it was up without a pause since then
	leaves bool
	owns   [groupCount]uint64 // tokens; 0: another node's
}

// announcement is the bytes of what this node says.
func (s *owners) announcement() []byte {
	a := announced{origin: s.origin, node: s.cfg.Node, leaves: s.leaving.Load()}
	for i := range s.groups {
		a.owns[i], _ = s.owns(i)
	}
	return wire.Append(nil, func(c *wire.Codec) { a.fields(c, len(s.groups)) })
}

// fields are what an announcement says, of so many groups.
func (a *announced) fields(c *wire.Codec, groups int) {
	c.Text(&a.origin, 64)
	c.Text(&a.node, engine.MaxLimitNameBytes)
	c.Bool(&a.leaves)
	for i := range groups {
		c.Uvarints(&a.owns[i])
	}
}

// hear takes in an announcement. If it comes from a node that was not up, this node announces too, so that the other one knows
// at once who owns what.
func (s *owners) hear(msg *nats.Msg) {
	var a announced
	r := wire.NewReader(msg.Data)
	wire.Read(r, func(c *wire.Codec) { a.fields(c, len(s.groups)) })
	if !r.Done() || a.origin == s.origin {
		return
	}
	a.at, a.since = time.Now(), time.Now()
	s.peers.mu.Lock()
	was, known := s.peers.nodes[a.origin]
	if known = known && a.at.Sub(was.at) < silentAfter; known && !was.leaves {
		a.since = was.since
	}
	if known || len(s.peers.nodes) < maxNodes {
		s.peers.nodes[a.origin] = a
	}
	s.peers.mu.Unlock()
	if !known {
		s.announce()
	}
}

func (s *owners) announce() {
	if err := s.conn.Publish(ownersSubject, s.announcement()); err != nil {
		s.cfg.Logger.Debug("limits: could not announce which groups this node owns; will retry", "error", err)
	}
}

// up calls f with each other node that is up, and forgets those that are not.
func (o *peers) up(now time.Time, f func(origin string, a *announced)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for origin, a := range o.nodes {
		if now.Sub(a.at) >= silentAfter {
			delete(o.nodes, origin)
			continue
		}
		f(origin, &a)
	}
}

// owner is the other node that owns a group, by its origin; "": none that is up says so. Of two the one with the later claim is it.
func (o *peers) owner(now time.Time, group int) (origin string) {
	var token uint64
	o.up(now, func(other string, a *announced) {
		if a.owns[group] > token {
			origin, token = other, a.owns[group]
		}
	})
	return origin
}

// view is what the owners are at one moment.
type view struct {
	names   []string          // of the nodes that are up and do not stop
	origins map[string]string // by name: the others that are up for long enough to be handed groups
	owned   [groupCount]bool  // by another node that is up
	known   bool              // all nodes that are up have said what they own
}

func (s *owners) view() (v view) {
	now := time.Now()
	v.origins = map[string]string{}
	heard := map[string]bool{}
	if !s.leaving.Load() {
		v.names = append(v.names, s.cfg.Node)
	}
	up := 1
	s.peers.up(now, func(origin string, a *announced) {
		heard[origin] = true
		up++
		for i, token := range a.owns {
			v.owned[i] = v.owned[i] || token > 0
		}
		if a.leaves {
			return
		}
		v.names = append(v.names, a.node)
		if now.Sub(a.since) >= settledAfter || s.leaving.Load() {
			v.origins[a.node] = origin
		}
	})
	v.known = now.Sub(s.peers.began) >= silentAfter
	if !v.known {
		v.known = true
		for _, o := range s.cfg.Journal.Origins() {
			v.known = v.known && (o.Self || o.Left || o.Why == replica.Silent || heard[o.Origin])
		}
	}
	if size := s.cfg.Journal.Joined().Size(); 2*up <= size {
		v.known = false
	}
	return v
}

// keepEvery is how often the keeper looks for groups to claim or to hand over.
const keepEvery = 20 * time.Millisecond

// offer is groups that another node hands over.
type offer struct {
	groups []int
	msg    *nats.Msg
}

// keep claims groups and hands them over, until ctx ends.
func (s *owners) keep(ctx context.Context) {
	v := s.view()
	if v.known {
		s.claim(ctx, s.unowned(&v))
	}
	s.handOver(ctx, &v)
}

// accept claims what other nodes hand over, until ctx ends. It waits for no handover of this node.
func (s *owners) accept(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-s.offers:
			s.claim(ctx, o.groups)
			if len(o.groups) > 0 || s.cfg.Journal.CatchUp(ctx) == nil {
				s.respond(o.msg, s.announcement())
			}
		}
	}
}

// unowned are the groups that this node should claim.
func (s *owners) unowned(v *view) (groups []int) {
	for i := range s.groups {
		if _, owns := s.owns(i); !owns && !v.owned[i] && membership.ChooseHolders(v.names, s.groups[i].name) == s.cfg.Node {
			groups = append(groups, i)
		}
	}
	return groups
}

// claimTime bounds one attempt to claim groups; it is made again.
const claimTime = 10 * time.Second

// claim makes this node the owner of groups.
func (s *owners) claim(ctx context.Context, groups []int) {
	if len(groups) == 0 || s.leaving.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	if err := s.cfg.Journal.Claim(ctx, groups); err != nil {
		if ctx.Err() == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			s.cfg.Logger.Warn("limits: could not journal that this node owns some keys; will retry", "groups", len(groups), "error", err)
		}
		return
	}
	for _, i := range groups {
		if token, ok := s.cfg.Journal.Claimed(i); ok {
			s.limits.learn(i, token)
			s.groups[i].token.Store(token)
			s.cfg.Logger.Info("limits: this node owns a group of keys", "group", s.groups[i].name, "token", token)
		}
	}
	s.announce()
}

// handOver gives groups to the nodes that should own them.
func (s *owners) handOver(ctx context.Context, v *view) {
	to := map[string][]int{} // by origin
	for i := range s.groups {
		if _, owns := s.owns(i); !owns {
			continue
		}
		if origin, ok := v.origins[membership.ChooseHolders(v.names, s.groups[i].name)]; ok {
			to[origin] = append(to[origin], i)
		}
	}
	for origin := range to {
		if err := s.probe(ctx, origin); err != nil {
			delete(to, origin)
		}
	}
	if len(to) == 0 {
		return
	}
	for _, groups := range to {
		s.recall(ctx, groups)
		for _, i := range groups {
			s.groups[i].yields.Store(true)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	err := s.drained(ctx)
	for origin, groups := range to {
		if err == nil {
			err = s.offer(ctx, origin, groups)
		}
		for _, i := range groups {
			s.limits.recall(i, false)
			s.groups[i].yields.Store(false)
		}
	}
	if err != nil && context.Cause(s.life) == nil {
		s.cfg.Logger.Warn("limits: could not hand groups over to another node; will retry", "error", err)
	}
	s.announce()
}

// recall has nodes give back what they were granted of some groups: the next owner could not settle it. It waits for
// recallTime at most; what does not come back counts as used until the grants' ends and an interval of the limit.
func (s *owners) recall(ctx context.Context, groups []int) {
	granted := func() (n uint64) {
		for _, i := range groups {
			n += s.limits.recall(i, true)
		}
		return n
	}
	if granted() == 0 {
		return
	}
	if err := s.conn.Publish(recallSubject, appendGroups(groups)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	for granted() > 0 && ctx.Err() == nil {
		_ = concurrency.Sleep(ctx, keepEvery/4)
	}
}

func (s *owners) recalled(msg *nats.Msg) {
	if groups, err := s.readGroups(msg.Data); err == nil {
		s.limits.giveBack(func(group int) bool { return slices.Contains(groups, group) })
	}
}

// appendGroups is the bytes of a list of groups: how many, and each as an unsigned varint.
func appendGroups(groups []int) []byte {
	b := binary.AppendUvarint(nil, uint64(len(groups)))
	for _, i := range groups {
		b = binary.AppendUvarint(b, uint64(i))
	}
	return b
}

func (s *owners) readGroups(data []byte) (groups []int, err error) {
	r := wire.NewReader(data)
	for range r.AtMost(groupCount) {
		groups = append(groups, int(r.AtMost(uint64(len(s.groups)-1))))
	}
	return groups, done(r)
}

// drained waits until all that was decided so far is answered, or lost.
func (s *owners) drained(ctx context.Context) error {
	over := make(chan struct{})
	s.commit(commit{group: -1, tell: func() { close(over) }})
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// probe reports whether another node can take groups over: it writes and follows the journal.
func (s *owners) probe(ctx context.Context, origin string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return s.offer(ctx, origin, nil)
}

// offer asks another node to claim groups, and waits until it did.
func (s *owners) offer(ctx context.Context, origin string, groups []int) error {
	msg, err := s.conn.RequestWithContext(ctx, takeSubject+origin, appendGroups(groups))
	if err != nil {
		return err
	}
	s.hear(msg)
	for _, i := range groups { // its claim may be followed here in a moment: until then nothing is to be decided here
		for {
			if _, owns := s.owns(i); !owns {
				break
			}
			if err := s.cfg.Journal.CatchUp(ctx); err != nil {
				return err
			}
			if _, owns := s.owns(i); owns {
				return errors.New("the other node did not claim the group")
			}
		}
	}
	return nil
}

// offered takes in what another node hands over.
func (s *owners) offered(msg *nats.Msg) {
	groups, err := s.readGroups(msg.Data)
	if err != nil {
		return
	}
	select {
	case s.offers <- offer{groups, msg}:
	default: // the other node asks again
	}
}

// owns returns the token of a group that this node owns. The node may answer what it has decided under this token.
func (s *owners) owns(i int) (token uint64, ok bool) {
	token = s.groups[i].token.Load()
	if token == 0 {
		return 0, false
	}
	last, own := s.cfg.Journal.Claimed(i)
	if !own || last != token {
		s.groups[i].token.CompareAndSwap(token, 0)
		return 0, false
	}
	return token, true
}

// holds is owns of a group for which this node decides what it is asked now.
func (s *owners) holds(i int) (token uint64, ok bool) {
	if s.groups[i].yields.Load() || !s.cfg.Journal.ClockSound() {
		return 0, false
	}
	return s.owns(i)
}

// ownedGroup is one part of the keys.
type ownedGroup struct {
	name    string
	token   atomic.Uint64 // of the claim under which this node decides; 0: it does not
	yields  atomic.Bool   // it is being handed over
	breaker breaker       // of the owner
}
