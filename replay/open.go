package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Stdin is the file name that stands for the standard input.
const Stdin = "-"

// maxZstdWindow bounds what a .zst file may make its reader allocate: 128 MiB,
// which `zstd --long=27` needs and no smaller level does.
const maxZstdWindow = 128 << 20

// TotalSize gives the size of all files in bytes, as they are on disk, or 0
// when it cannot be known because one of them is not a regular file. The error
// is that of the first file that cannot be read.
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

// meter tells how many bytes were read, before they are decompressed.
type meter struct {
	io.Reader
	read func(bytes int)
}

func (m meter) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	m.read(n)
	return n, err
}

// magicBytes is how much of a file's start tells its compression.
const magicBytes = 4

// compression tells how a file that begins with magic is compressed: gzip, zstd
// or, empty, not at all.
func compression(magic []byte) string {
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		return "gzip"
	case bytes.HasPrefix(magic, []byte("\x28\xb5\x2f\xfd")):
		return "zstd"
	}
	return ""
}

// decompress gives the text of r: what a file holds is told by its first
// bytes, not by its name, so that it works for the standard input too.
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
			return nil, nil, compressed{"gzip", err}
		}
		return wrapped{z, "gzip"}, func() { z.Close() }, nil
	case "zstd":
		z, err := zstd.NewReader(all, zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, compressed{"zstd", err}
		}
		return wrapped{z, "zstd"}, z.Close, nil
	}
	return all, func() {}, nil
}

// wrapped says of which compression a read error comes.
type wrapped struct {
	io.Reader
	kind string
}

func (w wrapped) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = compressed{w.kind, err}
	}
	return n, err
}

type compressed struct {
	kind string
	err  error
}

func (c compressed) Error() string {
	if errors.Is(c.err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("the %s data is cut short", c.kind)
	}
	return fmt.Sprintf("the %s data is damaged: %v", c.kind, c.err)
}

func (c compressed) Unwrap() error { return c.err }
