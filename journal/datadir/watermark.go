package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
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
type Watermark struct {
	Epoch  uint64
	Flush  uint64
	Stream uint64
}

const markBytes = 32

// WatermarkWriter writes the watermark of a directory; one at a time.
type WatermarkWriter struct {
	file *os.File
	turn int64
}

// OpenWatermark opens the file, which is made if it is not there.
func OpenWatermark(dir string) (*WatermarkWriter, error) {
	file, err := os.OpenFile(filepath.Join(dir, WatermarkFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return &WatermarkWriter{file: file}, nil
}

// Write notes how far the journal was acknowledged, without a sync.
func (w *WatermarkWriter) Write(m Watermark) error {
	var b [markBytes]byte
	binary.LittleEndian.PutUint64(b[0:], m.Epoch)
	binary.LittleEndian.PutUint64(b[8:], m.Flush)
	binary.LittleEndian.PutUint64(b[16:], m.Stream)
	binary.LittleEndian.PutUint32(b[28:], wire.Sum(b[:28]))
	w.turn ^= 1
	_, err := w.file.WriteAt(b[:], w.turn*markBytes)
	return err
}

// Close closes the file, which stays.
func (w *WatermarkWriter) Close() error { return w.file.Close() }

// ReadWatermark returns the later of the two places that are sound. With neither, in
// a directory that is not new, the mark itself is damaged.
func ReadWatermark(dir string) (Watermark, error) {
	path := filepath.Join(dir, WatermarkFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Watermark{}, fmt.Errorf("%s: %w: it is missing", path, record.ErrDamaged)
	}
	if err != nil {
		return Watermark{}, err
	}
	var latest Watermark
	sound, foul := 0, 0
	for ; len(data) >= markBytes; data = data[markBytes:] {
		b := data[:markBytes]
		if binary.LittleEndian.Uint32(b[28:]) != wire.Sum(b[:28]) {
			foul++
			continue
		}
		sound++
		m := Watermark{binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
		// By epoch first: where damage was accepted, a journal may be shorter than
		// the one before.
		if m.Epoch > latest.Epoch || m.Epoch == latest.Epoch && m.Stream >= latest.Stream {
			latest = m
		}
	}
	if sound == 0 {
		return Watermark{}, fmt.Errorf("%s: %w: no sound mark in it", path, record.ErrDamaged)
	}
	return latest, nil
}
