package journal

import (
	"context"
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

// runStores looks at the replicas until ctx is done.
func (j *Journal) runStores(ctx context.Context) {
	tick := time.NewTicker(replica.StoresEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if store, known := j.server.Store(); known {
			j.stores.Look(time.Now(), replica.StoreState(store))
			j.tellStores()
		}
		j.lookAtReplicas(ctx)
	}
}

// listenToStores takes what the others tell, until the connection closes.
func (j *Journal) listenToStores() error {
	s := &j.stores
	_, err := j.server.Conn().Subscribe(storesSubject, func(msg *nats.Msg) {
		node, wrong, ok := strings.Cut(string(msg.Data), "\n")
		if ok && node != j.cfg.Join.Node {
			s.Hear(time.Now(), node, wrong)
		}
	})
	return err
}

func (j *Journal) tellStores() {
	why, _ := j.stores.OwnWrong(time.Now())
	if err := j.server.Conn().Publish(storesSubject, []byte(j.cfg.Join.Node+"\n"+why)); err != nil {
		j.log.Debug("journal: could not tell the other nodes whether this one stores", "error", err)
	}
}

// lookAtReplicas asks the leader of the journal which replicas are current. While there
// is none, what the nodes tell of themselves is all there is.
func (j *Journal) lookAtReplicas(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replica.StoresEvery)
	defer cancel()
	followers, err := j.store.Followers(ctx)
	if err != nil || len(followers) == 0 {
		return
	}
	j.stores.See(time.Now(), followers)
}

// storeAlarms tell whose replicas do not store: what is durable is then on fewer nodes
// than it should be.
func (j *Journal) storeAlarms() (alarms []replica.Alarm) {
	if !j.cfg.clustered() {
		return nil
	}
	return j.stores.Alarms(time.Now(), j.cfg.Join.Node)
}
