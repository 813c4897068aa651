package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// A journal remembers which backups were merged into it, and whose hits were in them: a
// second backup of the same journal, which has most of the same hits, is refused. That
// one and the same backup counts once does not rest on this, but on its batches.
const (
	// MergesBucket is the KV bucket with the list.
	MergesBucket = "WEIR_MERGES"

	mergesStream, mergesSubject = "KV_" + MergesBucket, "$KV." + MergesBucket + "." // where the server has it

	mergesBytes = 4 << 20
	maxMerges   = 1000

	// grownKey is the entry of the one directory of a node alone that became a node of
	// this cluster.
	grownKey = "grown"

	// replacedKey is the entry of the last backup that replaced all hits: its origin, as
	// the ids of entries. What was merged before is gone since, and is merged again,
	// under another id, when it is asked for again.
	replacedKey = "replaced"

	// replacementKey is the entry of a backup that is about to replace all hits, and policiesKey has its policies.
	replacementKey, policiesKey = "replacing", "replacing.policies"
)

// Merges is the list of a journal. It is safe for many goroutines.
type Merges struct {
	JetStream jetstream.JetStream
	Replicas  func(want int) int // how many a stream can have now
	Journal   func() uint64      // identity of the journal
}

// RestoreEntry is a backup in the list, under its id in 16 hexadecimal digits.
type RestoreEntry struct {
	Journal uint64    `json:"journal,omitempty"` // that the backup is of
	Origins []uint64  `json:"origins"`           // whose hits are in it
	Taken   time.Time `json:"taken"`
	Node    string    `json:"node,omitempty"` // that merges it
	Began   time.Time `json:"began"`
	Whole   bool      `json:"whole,omitempty"` // all of it is here, by a replacement

	Policies []byte `json:"-"` // of the backup
	History  string `json:"-"` // file with the history of the backup; "": it has none
}

var (
	// ErrCountedTwice is why a backup is not merged: hits of it are counted here already.
	ErrCountedTwice error = &api.Error{Code: api.CodeCountedTwice, Field: "mode", Message: "hits of this backup are counted here already"}

	// ErrDamagedBackup is why nothing of a backup was restored.
	ErrDamagedBackup error = &api.Error{Code: api.CodeDamagedBackup, Message: "the backup can't be used, and nothing was changed"}

	// ErrRestoring is why a backup is not restored: another one is.
	ErrRestoring error = &api.Error{Code: api.CodeRestoreRunning, Message: "another backup is being restored, one at a time"}
)

// open makes the bucket if it is not there.
func (m *Merges) open(ctx context.Context) (bucket jetstream.KeyValue, err error) {
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		bucket, err = kv.Open(ctx, m.JetStream, jetstream.KeyValueConfig{
			Bucket: MergesBucket, Description: "Weir: backups that were merged", MaxBytes: mergesBytes, Replicas: m.Replicas(replica.Replicas),
		}, false)
		return err
	})
	return bucket, err
}

// entries lists the entries of backups. The bucket's own list of keys would be read by a consumer, which stays on
// the server when this process ends.
func (m *Merges) entries(ctx context.Context) (list map[string]RestoreEntry, err error) {
	list = map[string]RestoreEntry{}
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) error {
		bucket, err := m.JetStream.Stream(ctx, mergesStream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := bucket.Info(ctx, jetstream.WithSubjectFilter(mergesSubject+">"))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			key := strings.TrimPrefix(subject, mergesSubject)
			if key == grownKey || key == replacedKey || key == replacementKey || key == policiesKey {
				continue
			}
			value, err := m.existing(ctx, key)
			if err != nil {
				return err
			}
			if value == nil { // it was removed
				continue
			}
			var e RestoreEntry
			if err := json.Unmarshal(value, &e); err != nil {
				return fmt.Errorf("entry %s of %s: %w", key, MergesBucket, err)
			}
			list[key] = e
		}
		return nil
	})
	return list, err
}

// Origins returns the origins of all backups that were merged.
func (m *Merges) Origins(ctx context.Context) (origins []uint64, err error) {
	list, err := m.entries(ctx)
	for _, e := range list {
		origins = append(origins, e.Origins...)
	}
	slices.Sort(origins)
	return slices.Compact(origins), err
}

// instead is what to do with a backup that is not merged.
const instead = "use mode=replace to make the counts equal to the backup"

// begin refuses a backup whose hits are here, and writes down that this one is
// merged. again says that it was, as a whole.
func (m *Merges) begin(ctx context.Context, s *Spool, id uint64, node string, here *replica.Replica) (again bool, err error) {
	if here.MergedWhole(id) {
		return true, nil
	}
	journal := record.JournalText(m.Journal())
	if s.Info.Journal == m.Journal() {
		return false, fmt.Errorf("%w: it was taken of this very journal, %s, at %s: %s", ErrCountedTwice, journal, s.Info.Taken.Format(time.RFC3339), instead)
	}
	if origin, ok := here.Knows(s.Origins, id); ok {
		return false, fmt.Errorf("%w: hits of origin %016x are in journal %s: %s", ErrCountedTwice, origin, journal, instead)
	}
	list, err := m.entries(ctx)
	if err != nil {
		return false, err
	}
	key := record.JournalText(id)
	if list[key].Whole {
		return true, nil
	}
	for other, e := range list {
		if other == key {
			continue
		}
		for _, origin := range s.Origins {
			if slices.Contains(e.Origins, origin) {
				return false, fmt.Errorf("%w: a backup of %s with hits of origin %016x was merged into journal %s at %s: %s",
					ErrCountedTwice, e.Taken.Format(time.RFC3339), origin, journal, e.Began.Format(time.RFC3339), instead)
			}
		}
	}
	if list[key].Began.IsZero() {
		if err := m.refuseTopics(ctx, s, here); err != nil {
			return false, err
		}
	}
	if len(list) >= maxMerges {
		return false, fmt.Errorf("%d backups were merged into this journal, which is the most", len(list))
	}
	return false, m.Record(ctx, key, RestoreEntryOf(s, node))
}

// refuseTopics refuses a backup with hits of a topic that is counted here already.
func (m *Merges) refuseTopics(ctx context.Context, s *Spool, here *replica.Replica) error {
	moves, err := s.moves(ctx)
	if err != nil || !slices.ContainsFunc(moves, func(one replication.Request) bool {
		_, known := here.Position(one.ID)
		return known
	}) {
		return err
	}
	grown, err := m.get(ctx, grownKey)
	if err != nil || string(grown) == record.JournalText(s.Info.Journal) { // the nodes began where its topics were counted
		return err
	}
	return fmt.Errorf("%w: it has hits of a topic (--from) that journal %s counts too: %s", ErrCountedTwice, record.JournalText(m.Journal()), instead)
}

// Record writes an entry down.
func (m *Merges) Record(ctx context.Context, key string, e RestoreEntry) error {
	return m.change(ctx, func(ctx context.Context, kv jetstream.KeyValue) error { return putJSON(ctx, kv, key, e) })
}

func (m *Merges) change(ctx context.Context, do func(ctx context.Context, kv jetstream.KeyValue) error) error {
	kv, err := m.open(ctx)
	if err != nil {
		return err
	}
	return stream.RetryUnavailable(ctx, func(ctx context.Context) error { return do(ctx, kv) })
}

func putJSON(ctx context.Context, kv jetstream.KeyValue, key string, value any) error {
	data, err := json.Marshal(value)
	if err == nil {
		_, err = kv.Put(ctx, key, data)
	}
	return err
}

// get returns the value of an entry; nil: there is none.
func (m *Merges) get(ctx context.Context, key string) (value []byte, err error) {
	err = stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		if value, err = m.last(ctx, key); errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		return err
	})
	return value, err
}

// existing is last of an entry that is there: a leader that does not have it yet is asked again.
func (m *Merges) existing(ctx context.Context, key string) (value []byte, err error) {
	value, err = m.last(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = errors.Join(nats.ErrTimeout, err)
	}
	return value, err
}

// last is get without retries. It asks the leader: another replica may not have the entry yet. The value is nil if it was
// removed, and the error is jetstream.ErrKeyNotFound if there never was one.
func (m *Merges) last(ctx context.Context, key string) (value []byte, err error) {
	msg, err := stream.FromLeader(ctx, m.JetStream.Conn(), mergesStream, 0, mergesSubject+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, nats.ErrStreamNotFound):
		return nil, jetstream.ErrKeyNotFound
	case err != nil:
		return nil, err
	case msg.Header.Get("KV-Operation") != "":
		return nil, nil
	}
	return append([]byte{}, msg.Data...), nil
}

// replacedBy is the origin of the last backup that replaced all hits; 0: none has.
func (m *Merges) replacedBy(ctx context.Context) (id uint64, err error) {
	value, err := m.get(ctx, replacedKey)
	if err != nil || value == nil {
		return 0, err
	}
	return strconv.ParseUint(string(value), 16, 64)
}

// replacement is a backup that is about to replace all hits.
type replacement struct {
	ID    uint64       `json:"id"`  // its origin
	Key   string       `json:"key"` // of its entry, once it has
	Entry RestoreEntry `json:"entry"`
}

// beginReplacement writes down that a backup is about to replace all hits.
func (m *Merges) beginReplacement(ctx context.Context, r replacement) error {
	return m.change(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		if _, err := kv.Put(ctx, policiesKey, r.Entry.Policies); err != nil {
			return err
		}
		return putJSON(ctx, kv, replacementKey, r)
	})
}

// replacement is the one that is about to be, or was interrupted.
func (m *Merges) replacement(ctx context.Context) (r replacement, found bool, err error) {
	value, err := m.get(ctx, replacementKey)
	if err != nil || value == nil {
		return r, false, err
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return r, false, fmt.Errorf("entry %s of %s: %w", replacementKey, MergesBucket, err)
	}
	if r.Entry.Policies, err = m.get(ctx, policiesKey); err == nil && r.Entry.Policies == nil {
		err = fmt.Errorf("entry %s of %s: %w", policiesKey, MergesBucket, jetstream.ErrKeyNotFound)
	}
	return r, err == nil, err
}

// endReplacement ends what beginReplacement began. Of one that all hits were replaced by it forgets which backups were merged before, and writes
// down that its hits are here; nil: it was undone.
func (m *Merges) endReplacement(ctx context.Context, r *replacement) error {
	if r != nil {
		list, err := m.entries(ctx)
		if err != nil {
			return err
		}
		if err := m.change(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
			for key := range list {
				if err := kv.Purge(ctx, key); err != nil {
					return err
				}
			}
			_, err := kv.Put(ctx, replacedKey, []byte(record.JournalText(r.ID)))
			return err
		}); err != nil {
			return err
		}
		if err := m.Record(ctx, r.Key, r.Entry); err != nil {
			return err
		}
	}
	return m.change(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		return errors.Join(kv.Purge(ctx, replacementKey), kv.Purge(ctx, policiesKey))
	})
}

// Grown reports whether some directory of a node alone became a node of this cluster, with its hits.
func (m *Merges) Grown(ctx context.Context) (grown bool, err error) {
	value, err := m.get(ctx, grownKey)
	return value != nil, err
}

// ClaimGrown makes a directory's former journal the one that the cluster has grown
// from, or says which one is. file has the backup of that directory.
func (m *Merges) ClaimGrown(ctx context.Context, former uint64, file string) error {
	var other string
	if err := m.change(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Create(ctx, grownKey, []byte(record.JournalText(former)))
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
		value, err := m.existing(ctx, grownKey)
		other = string(value)
		return err
	}); err != nil {
		return err
	}
	if other == "" || other == record.JournalText(former) {
		return nil
	}
	return fmt.Errorf("this directory has the hits of journal %s, and cluster journal %s has grown from another one, %s: a cluster grows from one directory. "+
		"Nothing was counted. Start this node with an empty --data, and add its hits by hand: weir restore %s --server ADDR --mode merge",
		record.JournalText(former), record.JournalText(m.Journal()), other, file)
}

// RestoreEntryOf is what a journal remembers of this backup.
func RestoreEntryOf(s *Spool, node string) RestoreEntry {
	return RestoreEntry{Journal: s.Info.Journal, Origins: s.Origins, Taken: s.Info.Taken, Node: node, Began: time.Now().UTC(), Policies: s.Info.Policies}
}
