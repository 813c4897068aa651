package journal

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
)

// spool is a backup in a file of this machine that was checked as a whole: nothing of a
// backup counts before that.
type spool struct {
	path    string
	info    BackupInfo
	sum     [sha256.Size]byte // of the whole file
	sizes   []int64           // bytes of the state of each partition
	origins []uint64          // whose hits are in it
}

// spoolFrom copies a backup into a file, of at most so many bytes, and checks it.
func spoolFrom(ctx context.Context, r io.Reader, path string, most int64) (*spool, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(file, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("the backup has more than %d bytes, the size bound of this data directory: raise --max-disk (MaxBytes)", most)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	s, err := checkSpool(ctx, path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return s, nil
}

// checkSpool reads a whole backup.
func checkSpool(ctx context.Context, path string) (*spool, error) {
	s := &spool{path: path}
	b, err := s.open()
	if err != nil {
		return nil, err
	}
	defer b.close()
	if b.info.Partitions < 1 || b.info.Partitions > maxPartitions {
		return nil, fmt.Errorf("%w: section 0 of the backup: %d partitions", errDamaged, b.info.Partitions)
	}
	s.sizes = make([]int64, b.info.Partitions)
	err = b.each(func(snap snapshot) error {
		if snap.partition >= len(s.sizes) {
			return fmt.Errorf("%w: a snapshot of partition %d of %d", errDamaged, snap.partition, len(s.sizes))
		}
		s.sizes[snap.partition] = int64(len(snap.state))
		return ctx.Err()
	}, func(_ uint64, data []byte) error {
		if _, err := decodePart(data); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	s.info, s.origins = b.info, b.origins()
	copy(s.sum[:], b.whole.Sum(nil))
	return s, nil
}

// id is the origin under which the backup is merged into a journal: the same whenever it
// is, so that it counts once, until another backup has replaced all hits.
func (s *spool) id(to weir.Config, replacedBy uint64) uint64 {
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
	*backupReader
	file *os.File
}

func (s *spool) open() (openedSpool, error) {
	file, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return openedSpool{}, err
	}
	b, err := newBackupReader(file)
	if err != nil {
		return openedSpool{}, errors.Join(err, file.Close())
	}
	return openedSpool{b, file}, nil
}

func (o openedSpool) close() { _ = o.file.Close() } // it was read only

// engine is one with the settings of the backup, for its content alone: its janitor
// does not run, and its time of day is when the backup was taken, so that equal backups
// give equal contents.
func (info BackupInfo) engine() (*weir.Engine, error) {
	engine, err := weir.New(weir.Config{
		Partitions: info.Partitions, Retention: time.Duration(info.RetentionS) * time.Second,
		Memory: unbounded, Gather: true, Clock: weir.EventClock,
		Now: func() time.Time { return info.Taken },
	})
	if err != nil {
		return nil, fmt.Errorf("%w: section 0 of the backup: %w", errDamaged, err)
	}
	return engine, engine.Close()
}
