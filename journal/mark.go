package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weir-counter/weir/internal/wire"
)

// The mark says how far the journal was acknowledged, in a file of its own: a
// journal that ends before it was cut. It is written after each acknowledged
// flush, without a sync: after a crash of the process it is right, after one of
// the machine it may lag, which only makes it say less.
//
// Two places of 32 bytes are written in turn, so that a torn write spoils one:
//
//	8 bytes  epoch, 8 bytes flush, 8 bytes sequence of the flush's last message
//	         in the stream, 4 bytes zero, 4 bytes CRC-32C; all little endian
type mark struct {
	epoch  uint64
	flush  uint64
	stream uint64
}

const markBytes = 32

type markWriter struct {
	file *os.File
	turn int64
}

func openMark(dir string) (*markWriter, error) {
	file, err := os.OpenFile(filepath.Join(dir, markFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return &markWriter{file: file}, nil
}

func (w *markWriter) write(m mark) error {
	var b [markBytes]byte
	binary.LittleEndian.PutUint64(b[0:], m.epoch)
	binary.LittleEndian.PutUint64(b[8:], m.flush)
	binary.LittleEndian.PutUint64(b[16:], m.stream)
	binary.LittleEndian.PutUint32(b[28:], wire.Sum(b[:28]))
	w.turn ^= 1
	_, err := w.file.WriteAt(b[:], w.turn*markBytes)
	return err
}

func (w *markWriter) close() error { return w.file.Close() }

// readMark returns the later of the two places that are sound. With neither, in
// a directory that is not new, the mark itself is damaged.
func readMark(dir string) (mark, error) {
	path := filepath.Join(dir, markFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, fmt.Errorf("%s: %w: it is missing", path, errDamaged)
	}
	if err != nil {
		return mark{}, err
	}
	var latest mark
	sound, foul := 0, 0
	for ; len(data) >= markBytes; data = data[markBytes:] {
		b := data[:markBytes]
		if binary.LittleEndian.Uint32(b[28:]) != wire.Sum(b[:28]) {
			foul++
			continue
		}
		sound++
		m := mark{binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
		// By epoch first: where damage was accepted, a journal may be shorter than
		// the one before.
		if m.epoch > latest.epoch || m.epoch == latest.epoch && m.stream >= latest.stream {
			latest = m
		}
	}
	if sound == 0 {
		return mark{}, fmt.Errorf("%s: %w: no sound mark in it", path, errDamaged)
	}
	return latest, nil
}
