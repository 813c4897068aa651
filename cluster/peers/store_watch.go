package peers

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/journal/replica"
)

// storesSubject is where a node with an embedded server tells the others, every second,
// how its replicas are: its name, a line feed, and why they do not store; nothing more if
// they do. The servers' own view of each other is slower, and ends with the quorum, when
// it is needed most.
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
	tick := time.NewTicker(replica.StoresEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if own, known := w.Own(); known {
			w.Stores.Look(time.Now(), own)
			w.tell()
		}
		w.lookAtReplicas(ctx)
	}
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
