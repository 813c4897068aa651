package ondisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// mostHole is how far apart the sequences of two records in a block may be. The server keeps
// four bytes and more for each sequence between them, before it looks at a record's hash.
const mostHole = 1 << 24

// ErrSequence is wrapped by the error of CheckSequences for a damaged record.
var ErrSequence = errors.New("the sequence of a record is damaged")

// CheckSequences reads the blocks of a server that does not run, and returns an error that wraps ErrSequence and names
// the first record whose sequence is damaged so that the server would take all memory for it.
func CheckSequences(dir string) error {
	stores, err := filepath.Glob(filepath.Join(dir, streamsFolder, "*", "msgs"))
	if err != nil {
		return err
	}
	for _, folder := range stores {
		numbers, err := blockNumbers(folder)
		if err != nil {
			return err
		}
		for _, number := range numbers {
			path := filepath.Join(folder, fmt.Sprintf("%d.blk", number))
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if at, ok := farSequence(newBlock(filepath.Base(filepath.Dir(folder)), number), data); !ok {
				return fmt.Errorf("%w: %s at byte %d of %d", ErrSequence, path, at, len(data))
			}
		}
	}
	return nil
}

// farSequence looks for a record that is not sound, and whose sequence is far from the one before.
func farSequence(b *block, data []byte) (at int, ok bool) {
	last := uint64(0)
	for len(data)-at >= headerBytes {
		length := int(binary.LittleEndian.Uint32(data[at:]) &^ withHeaders)
		if length < headerBytes+sumBytes || length > len(data)-at {
			break // the server sees that by itself
		}
		sequence := binary.LittleEndian.Uint64(data[at+4:])
		if sequence&removed == 0 {
			sequence &^= erased
			if last != 0 && sequence > last+mostHole {
				if _, _, sound := b.next(data[at:]); !sound {
					return at, false
				}
			}
			last = max(last, sequence)
		}
		at += length
	}
	return 0, true
}
