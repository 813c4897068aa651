package durable

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/wire"
)

var damages = flag.Int("damages", 40, "how many random damages TestDamage makes")

// damagedDir is a data directory after a crash: snapshots in both slots, and
// some journal after them. It returns the counts that are right.
func damagedDir(t *testing.T) (Config, map[string]uint64) {
	cfg := testConfig(t, t.TempDir())
	want := map[string]uint64{}
	r := start(t, cfg)
	rnd := rand.New(rand.NewPCG(4, 4))
	for i := range int64(30) {
		for range 200 {
			key := fmt.Sprint("key:", int(rnd.ExpFloat64()*40))
			r.hit(key, 1_000_000+i, 1)
			want[key]++
		}
		r.sync()
		if i == 8 || i == 18 {
			r.j.checkpoints.StartRound()
			r.j.finishRound(t.Context())
		}
		if i == 15 {
			r.close()
			r = start(t, cfg)
		}
	}
	r.crash()
	return cfg, want
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Any flipped bit and any cut in any file is found, or harmless: a start is
// refused with the damage named, or every count is right.
func TestDamage(t *testing.T) {
	t.Parallel()
	cfg, want := damagedDir(t)
	r := rand.New(rand.NewPCG(11, 11))
	var files []string
	err := filepath.WalkDir(cfg.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != checkpoint.LockFile {
			files = append(files, path[len(cfg.Dir):])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	refused, harmless := 0, 0
	for i := range *damages {
		damaged := cfg
		damaged.Dir = filepath.Join(t.TempDir(), "copy")
		copyDir(t, cfg.Dir, damaged.Dir)
		what := damageFile(t, r, damaged.Dir+files[i%len(files)])
		began := time.Now()
		run, err := tryStart(t, damaged)
		if took := time.Since(began); took > transporttest.Patience {
			t.Errorf("%s: the start took %v", what, took)
		}
		if err != nil {
			if named := new(record.DamageError); !errors.As(err, &named) && !errors.Is(err, record.ErrDamaged) {
				t.Errorf("%s: refused without naming damage: %v", what, err)
			}
			refused++
			t.Logf("%s: refused: %v", what, err)
			continue
		}
		harmless++
		for key, n := range want {
			if got := run.count(key); got.Lower != n || got.Upper != n {
				t.Errorf("%s: %s: %+v, want %d, findings %v", what, key, got, n, run.j.Stats().Findings)
				break
			}
		}
		run.crash()
	}
	t.Logf("%d damages: %d refused by name, %d harmless", *damages, refused, harmless)
}

// damageFile flips a bit or cuts the file, and says what it did.
func damageFile(t *testing.T, r *rand.Rand, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
	if len(data) == 0 {
		return name + " is empty"
	}
	if r.IntN(3) == 0 {
		cut := r.IntN(len(data))
		name += fmt.Sprintf(" cut to %d of %d bytes", cut, len(data))
		data = data[:cut]
	} else {
		bit := r.IntN(8 * len(data))
		name += fmt.Sprintf(", bit %d of %d flipped", bit, 8*len(data))
		data[bit/8] ^= 1 << (bit % 8)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A sequence that is far from the one before ends a start, and a look at the files, with the file's
// name: the server would fill the hole between, and take all memory.
func TestDamagedSequence(t *testing.T) {
	t.Parallel()
	cfg, _ := damagedDir(t)
	blocks, err := filepath.Glob(filepath.Join(cfg.Dir, checkpoint.ServerDir, "jetstream", "*", "streams", stream.FlushStream, "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no block files: %v", err)
	}
	block := blocks[len(blocks)-1]
	data, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	const sequence = 4 // of a record, after its length
	second := int(binary.LittleEndian.Uint32(data) &^ (1 << 31))
	data[second+sequence+5] ^= 1
	if err := os.WriteFile(block, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tryStart(t, cfg); !errors.Is(err, record.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(block)) {
		t.Errorf("a start: %v", err)
	}
	if _, err := backup.VerifyDirectory(t.Context(), cfg.Dir); !errors.Is(err, transport.ErrSequence) || !strings.Contains(err.Error(), filepath.Base(block)) {
		t.Errorf("verify: %v", err)
	}
}

// With AcceptDamage a start goes on without what was lost, says what it cost,
// and the next start finds nothing.
func TestAcceptDamage(t *testing.T) {
	t.Parallel()
	cfg, _ := damagedDir(t)
	blocks, err := filepath.Glob(filepath.Join(cfg.Dir, checkpoint.ServerDir, "jetstream", "*", "streams", stream.FlushStream, "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no block files: %v", err)
	}
	data, err := os.ReadFile(blocks[len(blocks)-1])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-40] ^= 1
	if err := os.WriteFile(blocks[len(blocks)-1], data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = tryStart(t, cfg)
	var damage *record.DamageError
	if !errors.As(err, &damage) || len(damage.Findings) == 0 {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
	accepting := cfg
	accepting.AcceptDamage = true
	r := start(t, accepting)
	if len(r.j.Stats().Findings) == 0 {
		t.Error("accepted without a finding")
	}
	all := r.count(engine.AllKeys)
	r.hit("after", 1_000_100, 1)
	r.close()
	r = start(t, cfg)
	r.want("after", 1)
	r.want(engine.AllKeys, all.Lower+1)
}

// What another build wrote is not damage. No start takes such a directory for one without these hits, with AcceptDamage
// neither, and the message does not advise to.
func TestAnotherBuildsDirectory(t *testing.T) {
	t.Parallel()
	flush := record.NewEncoder(record.Incarnation{Origin: 1, Epoch: 1}, 1)
	flush.Begin(time.UnixMilli(1_000_000_000))
	older := flush.End(nil)[0]
	older[1] -= 2 // its version: the one before is read
	for name, write := range map[string]func(r *running) error{
		"a flush": func(r *running) error {
			_, err := r.j.store.Publish(t.Context(), wire.Seal(older[:len(older)-wire.SumBytes], 0), askTimeout)
			return err
		},
		"a snapshot": func(r *running) error {
			for partition := range 16 {
				stored, _, err := r.j.store.SlotsOf(t.Context(), partition)
				if err != nil {
					return err
				}
				for _, at := range stored {
					snap, err := r.j.store.GetSnapshot(t.Context(), at)
					if err != nil {
						return err
					}
					snap.State[1] = 7 // its version
					snap.State = wire.Seal(snap.State[:len(snap.State)-wire.SumBytes], 0)
					if _, err := r.j.store.PutSnapshot(t.Context(), snap, at.Slot, at.Sequence); err != nil {
						return err
					}
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := damagedDir(t)
			r := start(t, cfg)
			if err := write(r); err != nil {
				t.Fatal(err)
			}
			r.crash()
			says := func(err error) {
				t.Helper()
				if !errors.Is(err, wire.ErrVersion) || errors.Is(err, record.ErrDamaged) || !strings.Contains(err.Error(), "nothing was changed: run that build") {
					t.Errorf("got %v", err)
				}
			}
			_, err := tryStart(t, cfg)
			says(err)
			_, err = backup.VerifyDirectory(t.Context(), cfg.Dir)
			says(err)
			cfg.AcceptDamage = true
			_, err = tryStart(t, cfg)
			says(err)
			t.Log(err)
		})
	}
}
