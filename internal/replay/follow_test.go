package replay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// logTime is before 2000, when the clock of a synctest bubble begins.
const logTime = "[10/Oct/1999:13:55:36 +0000]"

func logLine(path string) string {
	return `h - - ` + logTime + ` "GET ` + path + ` HTTP/1.0" 200 1` + "\n"
}

// following runs Run on a growing file. Steps run one after the other, with
// time enough between them for several looks at the file.
func following(t *testing.T, start string, steps ...func(name string)) *Report {
	t.Helper()
	return followingFrom(t, false, start, steps...)
}

func followingFrom(t *testing.T, end bool, start string, steps ...func(name string)) *Report {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	write(t, name, os.O_CREATE|os.O_WRONLY, start)
	var report *Report
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			var err error
			report, err = Run(ctx, Options{Files: []string{name}, Follow: true, FromEnd: end, Format: CLF, Keys: []string{"{path}"}, Workers: 2})
			if err != nil {
				t.Error(err)
			}
		}()
		for _, step := range steps {
			time.Sleep(2 * time.Second) // the bubble's clock
			step(name)
		}
		time.Sleep(2 * time.Second)
		stop(errors.New("interrupt"))
		<-done
	})
	return report
}

func write(t *testing.T, name string, flag int, text string) {
	t.Helper()
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantLines(t *testing.T, r *Report, lines, malformed int) {
	t.Helper()
	if r.Lines != lines || r.Malformed != malformed {
		t.Errorf("%d lines, %d malformed; want %d and %d: %+v", r.Lines, r.Malformed, lines, malformed, r.MalformedLines)
	}
}

const appending = os.O_APPEND | os.O_WRONLY

func TestFollowGrowth(t *testing.T) {
	r := following(t, logLine("/1"),
		func(name string) { write(t, name, appending, logLine("/2")+logLine("/3")) },
		func(name string) { write(t, name, appending, logLine("/4")[:20]) }, // half a line
		func(name string) { write(t, name, appending, logLine("/4")[20:]) },
	)
	wantLines(t, r, 4, 0)
}

func TestFollowEmptyAtFirst(t *testing.T) {
	r := following(t, "", func(name string) { write(t, name, appending, logLine("/1")) })
	wantLines(t, r, 1, 0)
}

// A line that is unfinished at the start is not counted either: its beginning
// was not read.
func TestFollowFromEnd(t *testing.T) {
	r := followingFrom(t, true, logLine("/1")+logLine("/2"),
		func(name string) { write(t, name, appending, logLine("/3")) },
	)
	wantLines(t, r, 1, 0)
	r = followingFrom(t, true, logLine("/1")+logLine("/2")[:20],
		func(name string) { write(t, name, appending, logLine("/2")[20:]+logLine("/3")) },
		func(name string) { must(t, os.Truncate(name, 0)) },
		func(name string) { write(t, name, appending, logLine("/4")) },
	)
	wantLines(t, r, 2, 0)
	wantLines(t, followingFrom(t, true, ""), 0, 0)
}

func TestFollowRenameAndCreate(t *testing.T) {
	r := following(t, logLine("/1"),
		func(name string) {
			must(t, os.Rename(name, name+".1"))
			// The writer has not changed over yet.
			write(t, name+".1", appending, logLine("/2"))
		},
		func(name string) {
			write(t, name, os.O_CREATE|os.O_WRONLY, logLine("/3"))
			write(t, name+".1", appending, logLine("/4"))
		},
		func(name string) { write(t, name, appending, logLine("/5")) },
	)
	wantLines(t, r, 5, 0)
}

func TestFollowRenameInALine(t *testing.T) {
	r := following(t, logLine("/1")+"cut off",
		func(name string) {
			must(t, os.Rename(name, name+".1"))
			write(t, name, os.O_CREATE|os.O_WRONLY, logLine("/2"))
		},
	)
	wantLines(t, r, 2, 1)
	if len(r.MalformedLines) != 1 || r.MalformedLines[0].Line != 2 || r.MalformedLines[0].Text != "cut off" {
		t.Errorf("malformed lines: %+v", r.MalformedLines)
	}
}

func TestFollowCopyAndTruncate(t *testing.T) {
	r := following(t, logLine("/1")+logLine("/2"),
		func(name string) {
			must(t, os.Truncate(name, 0))
			write(t, name, appending, logLine("/3"))
		},
		func(name string) { write(t, name, appending, logLine("/4")) },
	)
	wantLines(t, r, 4, 0)
}
