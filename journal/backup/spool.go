package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal/record"
)

// Spool is a backup in a file of this machine that was checked as a whole: nothing of a
// backup counts before that.
type Spool struct {
	Path    string
	Info    Info
	sum     [sha256.Size]byte // of the whole file
	sizes   []int64           // bytes of the state of each partition
	Origins []uint64          // whose hits are in it
}

// NewSpool copies a backup into a file, of at most so many bytes, and checks it.
func NewSpool(ctx context.Context, r io.Reader, path string, most int64) (*Spool, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(file, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("the backup has more than %s, the size bound of this data directory: raise --max-disk (MaxBytes)", units.FormatSize(most))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	s, err := CheckSpool(ctx, path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return s, nil
}

// CheckSpool reads a whole backup.
func CheckSpool(ctx context.Context, path string) (*Spool, error) {
	s := &Spool{Path: path}
	b, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.Info.Partitions < 1 || b.Info.Partitions > record.MaxPartitions {
		return nil, fmt.Errorf("%w: section 0 of the backup: %d partitions", record.ErrDamaged, b.Info.Partitions)
	}
	s.sizes = make([]int64, b.Info.Partitions)
	err = b.each(func(snap record.Snapshot) error {
		if snap.Partition >= len(s.sizes) {
			return fmt.Errorf("%w: a snapshot of partition %d of %d", record.ErrDamaged, snap.Partition, len(s.sizes))
		}
		s.sizes[snap.Partition] = int64(len(snap.State))
		return ctx.Err()
	}, func(_ uint64, data []byte) error {
		if _, err := record.DecodePart(data); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	s.Info, s.Origins = b.Info, b.Origins()
	copy(s.sum[:], b.whole.Sum(nil))
	return s, nil
}

// ID is the origin under which the backup is merged into a journal: the same whenever it
// is, so that it counts once, until another backup has replaced all hits.
func (s *Spool) ID(to weir.Config, replacedBy uint64) uint64 {
	h := sha256.New()
	h.Write([]byte("weir merge"))
	h.Write(s.sum[:])
	_ = binary.Write(h, binary.LittleEndian, []int64{int64(to.Partitions), int64(to.Retention / time.Second)}) // a hash takes everything
	if replacedBy != 0 {
		_ = binary.Write(h, binary.LittleEndian, replacedBy)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))>>1 + 1
}

// openedSpool is a backup that is being read.
type openedSpool struct {
	*Reader
	file *os.File
}

// Open begins to read the file.
func (s *Spool) Open() (openedSpool, error) {
	file, err := os.OpenFile(s.Path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return openedSpool{}, err
	}
	b, err := NewReader(file)
	if err != nil {
		return openedSpool{}, errors.Join(err, file.Close())
	}
	return openedSpool{b, file}, nil
}

// Close ends the reading.
func (o openedSpool) Close() { _ = o.file.Close() } // it was read only

// Engine is one with the settings of the backup, for its content alone: its janitor
// does not run, and its time of day is when the backup was taken, so that equal backups
// give equal contents.
func (info Info) Engine() (*weir.Engine, error) {
	engine, err := weir.New(weir.Config{
		Partitions: info.Partitions, Retention: time.Duration(info.RetentionS) * time.Second,
		Memory: Unbounded, Gather: true, Clock: weir.EventClock,
		Now: func() time.Time { return info.Taken },
	})
	if err != nil {
		return nil, fmt.Errorf("%w: section 0 of the backup: %w", record.ErrDamaged, err)
	}
	return engine, engine.Close()
}
