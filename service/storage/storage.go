// Package storage is where the hits of a service are kept: in a journal, or in memory only. Of chooses once; whoever asks
// need not know which.
package storage

import (
	"context"
	"io"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/failure"
)

// Storage is a journal (journaled), or one that keeps nothing (ephemeral).
type Storage interface {
	backend.Journal
	// RefuseDurable is the error for a caller that wants hits on disk; nil: they get there.
	RefuseDurable() error
	// AddStats and AddNodes add what an answer says of the journal.
	AddStats(*api.StatsAnswer)
	AddNodes(*api.ClusterAnswer)
}

// Of is the Storage of a journal, or with nil of none.
func Of(j backend.Journal) Storage {
	if j == nil {
		return ephemeral{}
	}
	return journaled{j}
}

type journaled struct{ backend.Journal }

func (journaled) RefuseDurable() error { return nil }

func (j journaled) AddStats(a *api.StatsAnswer) {
	st := j.Stats()
	a.Durable = true
	a.Journal = &api.JournalStats{
		Epoch: st.Epoch, Flushes: st.Flushes, Bytes: st.Bytes, FlushSeconds: st.LastFlush.Seconds(),
		Failures: st.Failures, Failing: st.Failing, SnapshotRounds: st.Rounds,
		ReplayedFlushes: st.Replayed, LossyFindings: st.Lossy, HarmlessFindings: st.Harmless,
	}
}

func (j journaled) AddNodes(a *api.ClusterAnswer) {
	st := j.Stats()
	a.Mode, a.Size = "alone", 1
	a.Journal = &api.ClusterJournal{Bytes: st.Retained, Divergence: st.Divergence, Holes: st.Holes, Repaired: st.Repaired, LossyFindings: st.Lossy}
}

// ephemeral is a Journal that keeps nothing, and says so.
type ephemeral struct{}

func (ephemeral) RefuseDurable() error {
	return &failure.Error{Code: api.CodeEphemeral, Field: "durable",
		Message: "this server is ephemeral and keeps nothing on disk: start it without --ephemeral, or send hits without durable=true"}
}

func (e ephemeral) Sync(context.Context) error { return e.RefuseDurable() }

func (ephemeral) Backup(context.Context, io.Writer) error {
	return &failure.Error{Code: api.CodeEphemeral, Message: "an ephemeral server keeps no data to back up: start it with --data"}
}

func (ephemeral) Restore(context.Context, io.Reader, string) (api.Restored, error) {
	return api.Restored{}, &failure.Error{Code: api.CodeEphemeral, Message: "an ephemeral server keeps no data: start it with --data"}
}

func (ephemeral) Stats() backend.JournalStats { return backend.JournalStats{} }

func (ephemeral) Alarms() []api.Alarm { return nil }

func (ephemeral) AddStats(*api.StatsAnswer) {}

func (ephemeral) AddNodes(a *api.ClusterAnswer) { a.Mode = "ephemeral" }
