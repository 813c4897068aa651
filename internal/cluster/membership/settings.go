package membership

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/wire"
)

// settingsSubject carries a summary of each node's settings. A message is 'S', version 1, the node's origin and name.
// Then follow each setting's name and 8 bytes of hash, little endian. Texts have their length before them.
const (
	settingsSubject = "weir.settings"
	settingsMagic   = 'S'
	settingsVersion = 1

	maxSettings     = 32
	maxSettingBytes = 64 // of a name
	originBytes     = 16
)

const (
	settingsEvery = 5 * time.Second   // how often a node says its own
	settingsFor   = 3 * settingsEvery // for how long one that says nothing is taken to have what it said last

	// differAfter is how long settings may differ: a file that is changed on one node after the other does meanwhile.
	differAfter = 30 * time.Second

	maxSettingsNodes = 10_000
)

// Setting is one that all nodes of a cluster need alike.
type Setting struct {
	Name string // as people write it: a flag
	Hash uint64 // of what it is set to
}

// Settings tells the other nodes which settings this one has, and compares theirs. It is safe for many goroutines.
type Settings struct {
	Conn   *nats.Conn
	Log    *slog.Logger
	Origin string           // this node's, 16 hexadecimal digits
	Node   string           // and its name
	Own    func() []Setting // as they are now

	mu     sync.Mutex
	others map[string]*otherSettings // by origin
}

// otherSettings is what is known of another node's.
type otherSettings struct {
	node   string
	heard  time.Time
	differ []string  // names of those that differ from this node's
	since  time.Time // when they began to; zero: none does
	warned bool
}

// Listen receives the settings of the others, until the connection closes.
func (s *Settings) Listen() error {
	_, err := s.Conn.Subscribe(settingsSubject, func(msg *nats.Msg) { s.hear(time.Now(), msg.Data) })
	return err
}

// Run tells this node's until ctx is done.
func (s *Settings) Run(ctx context.Context) {
	concurrency.Repeat(ctx, settingsEvery, func() {
		if err := s.Conn.Publish(settingsSubject, s.encode()); err != nil {
			s.Log.Debug("could not tell the other nodes this one's settings; will retry", "error", err)
		}
	})
}

func (s *Settings) encode() []byte {
	data := []byte{settingsMagic, settingsVersion}
	data = wire.AppendText(wire.AppendText(data, s.Origin), s.Node)
	for _, own := range s.Own() {
		data = binary.LittleEndian.AppendUint64(wire.AppendText(data, own.Name), own.Hash)
	}
	return data
}

// decodeSettings is false where a message is cut, made up, or of another version.
func decodeSettings(data []byte) (origin, node string, list map[string]uint64, ok bool) {
	if len(data) < 2 || data[0] != settingsMagic || data[1] != settingsVersion {
		return "", "", nil, false
	}
	r := wire.NewReader(data[2:])
	origin, node = r.Text(originBytes), r.Text(record.MaxNodeBytes)
	list = map[string]uint64{}
	for r.Len() > 0 && len(list) < maxSettings {
		name := r.Text(maxSettingBytes)
		list[name] = r.Uint64()
	}
	return origin, node, list, r.Done()
}

// hear compares what a node says with this one's. A setting that only one of them names is of another build.
func (s *Settings) hear(now time.Time, data []byte) {
	origin, node, theirs, ok := decodeSettings(data)
	if !ok || origin == s.Origin {
		return
	}
	var differ []string
	for _, own := range s.Own() {
		if is, named := theirs[own.Name]; named && is != own.Hash {
			differ = append(differ, own.Name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.other(now, origin)
	if of == nil {
		return
	}
	of.node, of.heard, of.differ = node, now, differ
	switch {
	case len(differ) == 0 && of.warned:
		s.Log.Info("a node has the settings of this one again", "node", node)
		of.since, of.warned = time.Time{}, false
	case len(differ) == 0:
		of.since = time.Time{}
	case of.since.IsZero():
		of.since = now
	case !of.warned && now.Sub(of.since) >= differAfter:
		s.Log.Warn("a node has other settings than this one: all nodes of a cluster need the same", "node", node, "settings", strings.Join(differ, ", "))
		of.warned = true
	}
}

// other is what is known of an origin, which may be new; nil where there are too many. Those that are silent are
// forgotten. The caller holds mu.
func (s *Settings) other(now time.Time, origin string) *otherSettings {
	for known, of := range s.others {
		if now.Sub(of.heard) > settingsFor {
			delete(s.others, known)
		}
	}
	of := s.others[origin]
	if of == nil && len(s.others) < maxSettingsNodes {
		if s.others == nil {
			s.others = map[string]*otherSettings{}
		}
		of = &otherSettings{}
		s.others[origin] = of
	}
	return of
}

// Alarms name, in no order, the nodes whose settings differ from this one's. A difference counts only after the time
// that a change of a file on all nodes takes.
func (s *Settings) Alarms() []api.Alarm { return s.alarms(time.Now()) }

func (s *Settings) alarms(now time.Time) (list []api.Alarm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.others {
		if !of.since.IsZero() && now.Sub(of.since) >= differAfter && now.Sub(of.heard) <= settingsFor {
			list = append(list, api.Alarm{Code: "settings_differ", Message: fmt.Sprintf(
				"node %s has another %s than this one since %s: give all nodes of a cluster the same",
				of.node, strings.Join(of.differ, ", "), of.since.UTC().Format(time.RFC3339))})
		}
	}
	return list
}

// storesSubject is where a node with an embedded server reports, every second, the state of its replicas. The message
// is its name, a line feed, and why they do not store; nothing more if they do. The servers' own view of each other is
// slower, and ends with the quorum, when it is needed most.
const storesSubject = "weir.stores"

// StoreWatch finds out whose replicas of the journal store what they are sent.
type StoreWatch struct {
	Conn *nats.Conn
	Log  *slog.Logger
	Node string // this one's name

	// Own is how this node's server stores; known is false of an existing NATS.
	Own func() (state replica.StoreState, known bool)
	// Followers are the replicas as the leader of the journal sees them; none: there is no leader.
	Followers func(context.Context) ([]replica.ReplicaState, error)

	Stores *replica.Stores // that judges what was found
}

// Run looks at the replicas until ctx is done.
func (w *StoreWatch) Run(ctx context.Context) {
	concurrency.Every(ctx, replica.StoresEvery, func() bool {
		if own, known := w.Own(); known {
			w.Stores.Look(time.Now(), own)
			w.tell()
		}
		w.lookAtReplicas(ctx)
		return true
	})
}

// Listen takes what the others tell, until the connection closes.
func (w *StoreWatch) Listen() error {
	_, err := w.Conn.Subscribe(storesSubject, func(msg *nats.Msg) {
		node, wrong, ok := strings.Cut(string(msg.Data), "\n")
		if ok && node != w.Node {
			w.Stores.Hear(time.Now(), node, wrong)
		}
	})
	return err
}

func (w *StoreWatch) tell() {
	why, _ := w.Stores.OwnWrong(time.Now())
	if err := w.Conn.Publish(storesSubject, []byte(w.Node+"\n"+why)); err != nil {
		w.Log.Debug("journal: could not tell the other nodes whether this one stores", "error", err)
	}
}

// lookAtReplicas asks the leader of the journal which replicas are current. While there
// is none, what the nodes tell of themselves is all there is.
func (w *StoreWatch) lookAtReplicas(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replica.StoresEvery)
	defer cancel()
	followers, err := w.Followers(ctx)
	if err != nil || len(followers) == 0 {
		return
	}
	w.Stores.See(time.Now(), followers)
}
