package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// errIdle says that there is nothing to read now, and may be later.
var errIdle = errors.New("no more lines yet")

// follower reads a file that grows, through rotation. If another file has taken its name (rename and create), it reads the old one
// to its end and goes on with the new one. If the file got shorter (copy and truncate), it goes on from its start.
//
// It looks every poll interval. Two rotations within one interval lose the file between them; so does a truncated file that outgrows
// its old size within one.
type follower struct {
	name string
	poll time.Duration
	file *os.File
	at   int64 // bytes read of file
	last byte  // the last byte read of file

	inLine bool // reading began in the middle of a line: at the end of a file whose last line had no end yet

	// replaced says that another file had the name at the last look. The old file is closed at the next look if nothing was added:
	// its writer may need a moment to change over.
	replaced bool
}

// newFollower opens the file, at its end if fromEnd is set.
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

// toEnd skips what is in the file. Its last byte reports whether a line is unfinished.
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

// Read returns errIdle at the end of what is there.
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

// wait waits for the next look at the file. cut reports that a new file begins while the old one ends in the middle of a line: that
// line is over.
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

// Stdin is the file name for the standard input.
const Stdin = "-"

// maxZstdWindow bounds the memory for reading a .zst file: 128 MiB, which `zstd --long=27` needs and no smaller level does.
const maxZstdWindow = 128 << 20

// TotalSize returns the size of all files in bytes, as they are on disk; 0 if one of them is not a regular file. The error names the
// first file that can't be read.
func TotalSize(files []string) (int64, error) {
	var total int64
	known := true
	for _, name := range files {
		if name == Stdin {
			known = false
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		if info.IsDir() {
			return 0, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory: name the files in it")}
		}
		known = known && info.Mode().IsRegular()
		total += info.Size()
	}
	if !known {
		return 0, nil
	}
	return total, nil
}

// magicBytes is how much of a file's start tells its compression.
const magicBytes = 4

// compression returns how a file that begins with magic is compressed: gzip, zstd or, empty, not at all.
func compression(magic []byte) string {
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		return "gzip"
	case bytes.HasPrefix(magic, []byte("\x28\xb5\x2f\xfd")):
		return "zstd"
	}
	return ""
}

// decompress returns the text of r. The first bytes, not the name, say how it is compressed, so that it works for the standard
// input.
func decompress(r io.Reader) (text io.Reader, done func(), err error) {
	magic := make([]byte, magicBytes)
	n, err := io.ReadFull(r, magic)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, nil, err
	}
	all := io.MultiReader(bytes.NewReader(magic[:n]), r)
	switch compression(magic[:n]) {
	case "gzip":
		z, err := gzip.NewReader(bufio.NewReaderSize(all, 256<<10))
		if err != nil {
			return nil, nil, compressed{kind: "gzip"}.damaged(err)
		}
		return compressed{z, "gzip"}, func() { z.Close() }, nil
	case "zstd":
		z, err := zstd.NewReader(all, zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, compressed{kind: "zstd"}.damaged(err)
		}
		return compressed{z, "zstd"}, z.Close, nil
	}
	return all, func() {}, nil
}

// compressed is the text of a compressed file, whose errors say so.
type compressed struct {
	io.Reader
	kind string
}

func (c compressed) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.damaged(err)
	}
	return n, err
}

func (c compressed) damaged(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the %s data is cut short", c.kind)
	}
	return fmt.Errorf("the %s data is damaged: %w", c.kind, err)
}

// A cutter cuts a stream of text into whole lines. Between two calls it holds the start of an unfinished line: less than chunkBytes.
type cutter struct {
	carry []byte
	skip  bool // in a line of chunkBytes or more, of which the start was given out
}

// fill copies the start of the unfinished line to the start of buf.
func (c *cutter) fill(buf []byte) int {
	n := copy(buf, c.carry)
	c.carry = c.carry[:0]
	return n
}

// cut returns the whole lines at the start of text, which begins with what fill copied, and holds the rest. With ended, the last
// line is whole although it lacks its line end.
//
// Of a line that fills a chunk it returns just enough for the worker to see that it is longer than MaxLineBytes.
func (c *cutter) cut(text []byte, ended bool) []byte {
	if c.skip {
		end := bytes.IndexByte(text, '\n')
		c.skip = end < 0 && !ended
		if end < 0 {
			return nil
		}
		text = text[end+1:]
	}
	if ended {
		return text
	}
	if len(text) == chunkBytes && bytes.IndexByte(text, '\n') < 0 {
		c.skip = true
		return text[:MaxLineBytes+1]
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	c.carry = append(c.carry, text[whole:]...)
	return text[:whole]
}
