package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/weir-counter/weir/bench/proc"
	"github.com/weir-counter/weir/bench/traffic"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
)

// open starts an engine with a journal that is not snapshotted on its way.
func open(ctx context.Context, dir string) (*engine.Engine, *durable.Journal, error) {
	e, err := engine.New(engine.Config{Gather: true, Memory: 8 << 30})
	if err != nil {
		return nil, nil, err
	}
	j, err := durable.Open(ctx, e, durable.Config{Dir: dir, FlushEvery: time.Minute, MaxBytes: 1 << 40, SnapshotBytes: 64 << 30}, nil)
	return e, j, err
}

// flushes measures the bytes per entry of a flush, and what compression would save and cost. The flushes have 100 to
// 100,000 hits on a million keys.
func (b *bench) flushes() error {
	names := traffic.Keys(b.keys)
	for _, hits := range b.flushHits {
		engine, j, err := open(b.ctx, filepath.Join(b.dir, fmt.Sprint("flushes", hits)))
		if err != nil {
			return err
		}
		entries := 0
		for range 10 {
			distinct := map[uint32]bool{}
			for _, pick := range traffic.Picks(hits, b.keys) {
				distinct[pick] = true
				if err := engine.Hit(names[pick]); err != nil {
					return err
				}
			}
			entries += len(distinct)
			if err := j.Sync(b.ctx); err != nil {
				return err
			}
		}
		var file bytes.Buffer
		if err := j.Backup(b.ctx, &file); err != nil {
			return err
		}
		if err := errors.Join(j.Close(b.ctx), engine.Close()); err != nil {
			return err
		}
		if err := b.compress(hits, entries, messages(file.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

// messages are the journal's messages in a backup (docs/format.md).
func messages(file []byte) (all [][]byte) {
	const head, sum = 5, 4
	for rest := file[8:]; len(rest) >= head; {
		length := int(binary.LittleEndian.Uint32(rest[1:]))
		if rest[0] == 'F' {
			all = append(all, rest[head+8:head+length])
		}
		rest = rest[head+length+sum:]
	}
	return all
}

func (b *bench) compress(hits, entries int, messages [][]byte) error {
	fast, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	for _, codec := range []struct {
		name   string
		encode func([]byte) []byte
	}{
		{"none", func(m []byte) []byte { return m }},
		{"s2", func(m []byte) []byte { return s2.Encode(nil, m) }},
		{"zstd-fastest", func(m []byte) []byte { return fast.EncodeAll(m, nil) }},
	} {
		size, began := 0, time.Now()
		for _, m := range messages {
			size += len(codec.encode(m))
		}
		took := time.Since(began)
		fmt.Fprintf(b.out, "BenchmarkFlush/hits=%d/%s %d %.2f bytes/entry %.1f cpu-ns/entry\n",
			hits, codec.name, entries, float64(size)/float64(entries), float64(took.Nanoseconds())/float64(entries))
	}
	return nil
}

// snapshots measures snapshots of many keys, and the start after them.
func (b *bench) snapshots() error {
	for round := range b.rounds {
		dir := filepath.Join(b.dir, fmt.Sprint("keys", round))
		engine, j, err := open(b.ctx, dir)
		if err != nil {
			return err
		}
		now := time.Now().Unix()
		r := rand.New(rand.NewPCG(1, uint64(round)))
		for _, key := range traffic.Keys(b.keys) {
			for range 3 {
				if _, err := engine.HitAt(time.Unix(now-r.Int64N(3600), 0), key, 1); err != nil {
					return err
				}
			}
		}
		if err := j.Sync(b.ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := j.Close(b.ctx); err != nil {
			return err
		}
		fmt.Fprintf(b.out, "BenchmarkSnapshot/keys=%s 1 %.3f longest-cut-ms %.2f round-s\n",
			short(b.keys), float64(j.Stats().LongestCut.Microseconds())/1e3, time.Since(began).Seconds())
		if err := engine.Close(); err != nil {
			return err
		}
		if err := b.start("BenchmarkStart/keys="+short(b.keys), dir, b.keys); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) start(name, dir string, least int) error {
	used, err := proc.CPU(os.Getpid())
	if err != nil {
		return err
	}
	began := time.Now()
	engine, j, err := open(b.ctx, dir)
	if err != nil {
		return err
	}
	took := time.Since(began)
	after, err := proc.CPU(os.Getpid())
	if err != nil {
		return err
	}
	if keys := engine.Stats().Keys; keys < least {
		return fmt.Errorf("%s: %d keys, want %d", name, keys, least)
	}
	fmt.Fprintf(b.out, "%s 1 %.2f s %.2f cpu-s %d keys\n", name, took.Seconds(), (after - used).Seconds(), engine.Stats().Keys)
	return errors.Join(j.Close(b.ctx), engine.Close())
}

// replay measures a start that has no snapshot, but much journal.
func (b *bench) replay() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "replay")
	fill := exec.CommandContext(b.ctx, self, "-fill", dir, fmt.Sprint("-quick=", b.small), "-journal-mib", fmt.Sprint(b.journalMiB))
	fill.Stderr = os.Stderr
	if err := fill.Run(); err != nil {
		return err
	}
	return b.start(fmt.Sprintf("BenchmarkStart/journal=%dMiB", b.journalMiB), dir, 1)
}

// fillJournal writes much journal, and leaves it as a crash would.
func (b *bench) fillJournal(dir string) error {
	engine, j, err := open(b.ctx, dir)
	if err != nil {
		return err
	}
	names := traffic.Keys(b.keys)
	picks := traffic.Picks(4_000_000, b.keys)
	at := time.Now().Unix() - 3600
	for i := 0; int64(j.Stats().Bytes) < b.journalMiB<<20; i++ {
		first := (i * 100_000) % len(picks)
		for _, pick := range picks[first : first+100_000] {
			if _, err := engine.HitAt(time.Unix(at+int64(i), 0), names[pick], 1); err != nil {
				return err
			}
		}
		if err := j.Sync(b.ctx); err != nil {
			return err
		}
	}
	return nil
}
