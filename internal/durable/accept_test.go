package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// A journal that was cut off, accepted: sequences that snapshots say they
// include must not be used again, whenever the process ends after that.
func TestAcceptedCutSurvivesCrashes(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	run := start(t, cfg)
	for i := range int64(30) {
		run.hit("a", 1_000_000+i, 1)
		run.sync()
	}
	run.j.checkpoints.StartRound()
	run.j.finishRound(t.Context())
	run.crash()
	// The stream loses all; the snapshots are beyond its end.
	streams, err := filepath.Glob(filepath.Join(cfg.Dir, checkpoint.ServerDir, "jetstream", "*", "streams", stream.FlushStream))
	if err != nil || len(streams) != 1 {
		t.Fatalf("%v, %v", streams, err)
	}
	if err := os.RemoveAll(streams[0]); err != nil {
		t.Fatal(err)
	}
	var damage *record.DamageError
	if _, err := tryStart(t, cfg); !errors.As(err, &damage) {
		t.Fatalf("got %v", err)
	}
	accepting := cfg
	accepting.AcceptDamage = true
	run = start(t, accepting)
	run.want("a", 30)
	for i := range 10 {
		run.hit("b", 1_000_100, 1)
		run.sync()
		run.crash()
		run = start(t, cfg)
		run.want("a", 30)
		run.want("b", uint64(i+1))
		if f := run.j.Stats().Findings; len(f) > 0 {
			t.Fatalf("found again: %v", f)
		}
	}
}

// A small disk is no dead end: where the journal is at its bound, snapshots still
// have space, it is trimmed, and the flush that waited goes on.
func TestSmallDiskGoesOn(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.MaxBytes, cfg.SnapshotBytes = minMaxBytes, 1<<30
	run := startSmall(t, cfg)
	hits := uint64(0)
	for i := int64(0); run.j.Stats().Bytes < 3*minMaxBytes/2; i++ {
		for k := range 500 {
			run.hitWhenTaken(fmt.Sprintf("%0400d", k), 1_000_000+i)
			hits++
		}
		run.sync()
	}
	run.crash()
	startSmall(t, cfg).want("*", hits)
}
