package durable

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// startAt is start of an engine by the time of day, with a clock that is off.
func startAt(t *testing.T, cfg Config, off time.Duration) *running {
	t.Helper()
	r, err := tryStartWith(t, cfg, clockConfig(off))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func clockConfig(off time.Duration) engine.Config {
	return engine.Config{Partitions: 16, Retention: time.Hour, Gather: true, Now: func() time.Time { return time.Now().Add(off) }}
}

// A node ran two hours ahead, with a retention of an hour. With the clock set right its
// directory is well again, whether its hits are in the journal, in snapshots or in a
// backup, and the node counts; so it is after a life by a clock a year behind.
func TestPoisonedDirectoryHeals(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"journal", "snapshots", "backup"} {
		for _, off := range []time.Duration{2 * time.Hour, -365 * 24 * time.Hour} {
			t.Run(fmt.Sprint(from, off), func(t *testing.T) {
				cfg := testConfig(t, filepath.Join(t.TempDir(), "data"))
				right := startAt(t, cfg, 0)
				countNow(t, right, "a", 3)
				right.sync()
				right.crash()
				wrong := startAt(t, cfg, off)
				countNow(t, wrong, "a", 5)
				countNow(t, wrong, "b", 2)
				switch wrong.sync(); from {
				case "journal":
					wrong.crash()
				case "snapshots":
					wrong.close()
				case "backup":
					file := wrong.backup()
					wrong.close()
					restored := restoredWith(t, file, clockConfig(0))
					wantHealed(t, restored)
				}
				if from != "backup" {
					wantHealed(t, startAt(t, cfg, 0))
				}
			})
		}
	}
}

// countNow hits a key and wants it counted now.
func countNow(t *testing.T, r *running, key string, n uint64) {
	t.Helper()
	if err := r.e.HitN(key, n); err != nil {
		t.Fatal(err)
	}
	if c, err := r.e.Count(key, 5*time.Minute); err != nil || c.Lower != n || c.Upper != n {
		t.Errorf("%s: %+v, %v, want %d", key, c, err, n)
	}
}

func wantHealed(t *testing.T, r *running) {
	t.Helper()
	for key, n := range map[string]uint64{"a": 7, "b": 7, "c": 7} {
		if err := r.e.HitN(key, n); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for key, want := range map[string]uint64{"a": 10, "b": 7, "c": 7, engine.AllKeys: 24} {
		if c, err := r.e.Count(key, 5*time.Minute); err != nil || c.Lower != want || c.Upper != want {
			t.Errorf("%s: %+v, %v, want %d", key, c, err, want)
		}
	}
	if s := r.e.Stats(); s.Hits != 3+5+2+21 || s.TooLate != 0 {
		t.Errorf("%+v", s)
	}
	if s := r.j.Stats(); len(s.Findings) > 0 {
		t.Errorf("%+v", s.Findings)
	}
	r.sync()
}
