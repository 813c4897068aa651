package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/units"
)

// Config sets up a Journal. Dir must be given; zeros mean the defaults.
type Config struct {
	// Dir is the data directory, made if it is not there. It belongs to one
	// process at a time.
	Dir string

	// FlushEvery is how long a plain hit may be in memory only: what a crash may
	// lose. 1 ms to 1 min. 0: 100 ms.
	FlushEvery time.Duration

	// MaxBytes bounds what the data directory keeps. Half of it is for the
	// journal, the rest for two snapshots of all. So it must be at least MinDisk of the
	// engine's Memory and LimitMemory together, which is 3.5 times as much. When the
	// journal has taken its half, except for what was counted already, hits are refused
	// until it is trimmed, which needs no space. Space of removed
	// messages may come on top, up to as much again. At least 16 MiB. 0: 16 GiB.
	MaxBytes int64

	// OtherBytes is what streams of others than the journal may take, in addition to MaxBytes: the log of regions.
	OtherBytes int64

	// SnapshotBytes is how much journal may grow before the partitions are
	// snapshotted; twice that is the replay that a start after a crash may need.
	// An eighth of MaxBytes if that is less. At least 64 KiB. 0: 64 MiB.
	SnapshotBytes int64

	// AcceptDamage goes on where damage was found, without what was lost. If
	// false, Open refuses with a *DamageError.
	AcceptDamage bool

	// LeaveCluster makes the directory of a cluster's node one of a node alone, with all
	// that the cluster counted. All other nodes must have stopped before in good order, or
	// been removed; else AcceptDamage is needed, and what is not in this directory is
	// lost. If the directory already belongs to a node alone, it changes nothing.
	LeaveCluster bool

	// ShrinkRetention lets a directory get a shorter retention than it has, which drops the hits that are older. If
	// false, Open refuses and changes nothing.
	ShrinkRetention bool

	// Replicas is how many nodes hold a partition and answer for its keys, each of
	// them with all hits. The others take hits of it anyway. Only among nodes, and
	// the same on all. 0: all.
	Replicas int

	// MoveAfter is how long a node may be away before others take the partitions that it
	// holds: longer than a restart takes. At least 1 s. 0: 30 s.
	MoveAfter time.Duration

	// Join says which other nodes count together with this one; its Dir, MaxBytes
	// and Logger are the journal's. Zero: this node is alone.
	Join transport.Config

	// Needed, if not nil, is the first message of the journal that something else than
	// snapshots needs, such as history; 0: none. The journal is not trimmed beyond it. With haste, once the journal has taken
	// half of its part of MaxBytes, it is the first message with something that nothing else has.
	Needed func(haste bool) (first uint64)

	// Logger takes the journal's and the embedded server's messages. nil: none.
	Logger *slog.Logger
}

const (
	defaultFlushEvery    = 100 * time.Millisecond
	defaultMaxBytes      = 16 << 30
	defaultSnapshotBytes = 64 << 20
	defaultMoveAfter     = 30 * time.Second

	minMaxBytes      = 16 << 20
	minSnapshotBytes = 64 << 10
)

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field
// outside what it may be. Open does the same: this is for code that opens other things
// before it.
func (cfg Config) Validate() error { return cfg.WithDefaults().validate() }

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (cfg Config) WithDefaults() Config {
	cfg.FlushEvery = cmp.Or(cfg.FlushEvery, defaultFlushEvery)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	cfg.SnapshotBytes = cmp.Or(cfg.SnapshotBytes, defaultSnapshotBytes)
	cfg.SnapshotBytes = min(cfg.SnapshotBytes, max(cfg.MaxBytes/8, minSnapshotBytes))
	cfg.MoveAfter = cmp.Or(cfg.MoveAfter, defaultMoveAfter)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}

func (cfg Config) validate() error {
	switch {
	case cfg.Dir == "":
		return invalidConfig("Dir", "it is empty: name a directory")
	case cfg.FlushEvery < time.Millisecond || cfg.FlushEvery > time.Minute:
		return invalidConfig("FlushEvery", "FlushEvery of %v: must be 1ms to 1m", cfg.FlushEvery)
	case cfg.MaxBytes < minMaxBytes:
		return invalidConfig("MaxBytes", "MaxBytes of %s: must be at least %s", units.FormatSize(cfg.MaxBytes), units.FormatSize(minMaxBytes))
	case cfg.SnapshotBytes < minSnapshotBytes:
		return invalidConfig("SnapshotBytes", "SnapshotBytes of %s: must be at least %s", units.FormatSize(cfg.SnapshotBytes), units.FormatSize(minSnapshotBytes))
	}
	switch {
	case cfg.MoveAfter < time.Second:
		return invalidConfig("MoveAfter", "MoveAfter of %v: must be at least 1s", cfg.MoveAfter)
	case cfg.LeaveCluster && cfg.clustered():
		return invalidConfig("LeaveCluster", "LeaveCluster makes this node one alone: leave out Join, or it")
	case cfg.Replicas < 0:
		return invalidConfig("Replicas", "Replicas of %d: must be at least 1, or 0 for all nodes", cfg.Replicas)
	case cfg.Replicas > 0 && !cfg.clustered():
		return invalidConfig("Replicas", "Replicas of %d: a single node holds all partitions: omit it, or join a cluster", cfg.Replicas)
	}
	return nil
}

func invalidConfig(field, format string, args ...any) error {
	return &engine.Error{Code: api.CodeInvalidConfig, Field: field, Message: fmt.Sprintf(format, args...)}
}

// clustered reports whether the journal has batches of other origins.
func (cfg Config) clustered() bool { return cfg.Join.Cluster != "" || cfg.Join.URL != "" }

const (
	readyTimeout = 30 * time.Second // of a server that is alone
	askTimeout   = 10 * time.Second // of one request to the server

	// clusterAskTimeout bounds one try of a flush among other nodes. A leader that was
	// lost never answers, and the next is there within seconds. A flush that is
	// there twice counts once.
	clusterAskTimeout = 2 * time.Second
)

// startServer joins, or starts the server of one node alone, and waits until
// JetStream answers: in a cluster for as long as ctx allows.
func startServer(ctx context.Context, cfg Config) (*transport.Node, error) {
	as := cfg.Join
	as.Dir, as.MaxBytes, as.Logger = filepath.Join(cfg.Dir, checkpoint.ServerDir), cfg.MaxBytes+cfg.OtherBytes, cfg.Logger
	as.Unbroken, as.Unchecked = stream.FlushStream, cfg.AcceptDamage
	if !cfg.clustered() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readyTimeout)
		defer cancel()
	}
	server, err := transport.Open(ctx, as)
	if errors.Is(err, transport.ErrSequence) {
		return nil, fmt.Errorf("%w: %w: nothing was changed; restore a backup of it, or start with another directory", record.ErrDamaged, err)
	}
	return server, err
}

// identityOf is what the streams of a directory must say.
func identityOf(m checkpoint.Manifest) stream.Identity {
	return stream.Identity{Journal: m.Journal, Partitions: m.Partitions, RetentionS: m.RetentionS}
}
