package replay

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// errIdle says that there is nothing to read now, and may be later.
var errIdle = errors.New("no more lines yet")

// follower reads a file that grows, through rotation: when another file has
// taken its name (rename and create), it reads the old one to its end and goes
// on with the new one from its start; when the file got shorter (copy and
// truncate), it goes on from its start.
//
// It looks every poll interval. Two rotations within one interval lose the
// file between them, and so does a truncated file that has outgrown its old
// size by the next look; both take a log that turns over several times a
// second.
type follower struct {
	name string
	poll time.Duration
	file *os.File
	at   int64 // bytes read of file
	last byte  // the last byte read of file

	// inLine says that the reading began in the middle of a line: at the end of a
	// file whose last line had no end yet.
	inLine bool

	// replaced says that at the last look another file had the name. The old
	// file is given up only at the look after that, when still nothing was
	// added: its writer may need a moment to change over.
	replaced bool
}

// newFollower opens the file, at its end when fromEnd is set.
func newFollower(name string, poll time.Duration, fromEnd bool) (*follower, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &follower{name: name, poll: poll, file: file}
	if fromEnd {
		if err := f.toEnd(); err != nil {
			file.Close()
			return nil, err
		}
	}
	return f, nil
}

// toEnd skips what is in the file, but for its last byte, which tells whether a
// line is unfinished.
func (f *follower) toEnd() error {
	size, err := f.file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.file.ReadAt(last, size-1); err != nil {
		return err
	}
	f.at, f.last, f.inLine = size, last[0], last[0] != '\n'
	return nil
}

func (f *follower) close() error { return f.file.Close() }

// Read gives what is there, and errIdle at the end of it.
func (f *follower) Read(b []byte) (int, error) {
	n, err := f.file.Read(b)
	if n > 0 {
		f.at += int64(n)
		f.last = b[n-1]
		f.replaced = false
		return n, nil
	}
	if err == io.EOF {
		err = errIdle
	}
	return 0, err
}

// wait waits for the next look at the file. It tells true when a new file was
// begun while the old one ended in the middle of a line: that line is over.
func (f *follower) wait(ctx context.Context) (cut bool, err error) {
	timer := time.NewTimer(f.poll)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return f.look()
}

func (f *follower) look() (cut bool, err error) {
	info, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() > f.at {
		return false, nil
	}
	if info.Size() < f.at {
		if _, err := f.file.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
		return f.begin(), nil
	}
	named, err := os.Stat(f.name)
	if errors.Is(err, os.ErrNotExist) || (err == nil && os.SameFile(info, named)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !f.replaced {
		f.replaced = true
		return false, nil
	}
	next, err := os.Open(f.name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f.file.Close()
	f.file = next
	return f.begin(), nil
}

// begin starts a file from its first byte.
func (f *follower) begin() (cut bool) {
	cut = f.at > 0 && f.last != '\n'
	f.at, f.last, f.replaced = 0, 0, false
	return cut
}
