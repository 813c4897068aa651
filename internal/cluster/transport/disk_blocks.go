package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// This file reads the files of an embedded server of a cluster while it does
// not run, and says what of them is damaged.
//
// The server itself starts with damaged files: it cuts off or skips what it can't read. If it becomes leader of a
// stream, the other replicas delete what it does not have. So Weir reads a replica before its server may vote, and
// does not start a damaged one.
//
// The format is the one of nats-server 2.15. Streams, and the logs that replicate them (raftlog.go), are blocks of
// records, each with a checksum (blocks.go). A server that writes another format fails the tests here.

// A block is a file N.blk of records, one after the other; numbers are little
// endian:
//
//	4 bytes  length of the record, with this; the highest bit: it has headers
//	8 bytes  sequence; bit 63: erased; bit 62: a note that it was removed
//	8 bytes  time
//	2 bytes  length of the subject
//	         subject; length of the headers (4 bytes) and headers, if it has them;
//	         the message
//	8 bytes  HighwayHash of sequence, time, subject, headers and message, under a
//	         key of the store's name and the block's number
const (
	headerBytes = 22
	sumBytes    = 8
	mostBytes   = 32 << 20 // of a record
	mostSubject = 1 << 10  // Weir's are shorter; it keeps what is not a record from looking like one

	withHeaders = 1 << 31
	erased      = 1 << 63
	removed     = 1 << 62
)

// record is one that is sound.
type record struct {
	sequence uint64
	erased   bool // its content is gone
	removed  bool // it says that the message of the sequence was removed
	message  []byte
}

// block reads the records of one block.
type block struct {
	hash *highwayhash.Digest64
	sum  [sumBytes]byte
}

func newBlock(store string, number int) *block {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", store, number))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	return &block{hash: hash}
}

// next reads the record at the beginning of data and returns its length; ok is
// false if it is not sound.
func (b *block) next(data []byte) (r record, length int, ok bool) {
	if len(data) < headerBytes+sumBytes {
		return r, 0, false
	}
	size := binary.LittleEndian.Uint32(data)
	length = int(size &^ withHeaders)
	subject := int(binary.LittleEndian.Uint16(data[20:]))
	head := subject
	if size&withHeaders != 0 {
		head += 4
	}
	if length > len(data) || length > mostBytes || subject > mostSubject || headerBytes+head+sumBytes > length {
		return r, 0, false
	}
	end := length - sumBytes
	b.hash.Reset()
	for _, hashed := range [...][]byte{data[4:20], data[headerBytes : headerBytes+subject], data[headerBytes+head : end]} {
		_, _ = b.hash.Write(hashed) // it never fails
	}
	if !bytes.Equal(b.hash.Sum(b.sum[:0]), data[end:length]) {
		return r, 0, false
	}
	sequence := binary.LittleEndian.Uint64(data[4:])
	return record{
		sequence: sequence &^ (erased | removed), erased: sequence&erased != 0, removed: sequence&removed != 0,
		message: data[headerBytes+head : end],
	}, length, true
}

// soundAfter reports whether a sound record begins anywhere after the first byte.
func (b *block) soundAfter(data []byte) bool {
	for at := 1; at < len(data); at++ {
		if _, _, ok := b.next(data[at:]); ok {
			return true
		}
	}
	return false
}

// readBlocks calls f with each sound record of a store, in order, and returns the number of blocks. A record that is
// not sound is damage, unless it is the last one: a crash may have torn it before it was acknowledged.
func readBlocks(folder, store string, f func(record)) (blocks int, found []Damage, err error) {
	numbers, err := blockNumbers(folder)
	if err != nil {
		return 0, nil, err
	}
	for i, number := range numbers {
		path := filepath.Join(folder, fmt.Sprintf("%d.blk", number))
		data, err := os.ReadFile(path)
		if err != nil {
			found = append(found, Damage{Path: path, What: err.Error()})
			continue
		}
		b := newBlock(store, number)
		for at := 0; at < len(data); {
			r, length, ok := b.next(data[at:])
			if !ok {
				if last := i == len(numbers)-1; !last || b.soundAfter(data[at:]) {
					found = append(found, Damage{Path: path, What: fmt.Sprintf("the record at byte %d of %d is damaged", at, len(data)), atEnd: last})
				}
				break
			}
			f(r)
			at += length
		}
	}
	return len(numbers), found, nil
}

// blockNumbers returns the numbers of the blocks in a folder, in order. A missing folder has none.
func blockNumbers(folder string) (numbers []int, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".blk"); ok {
			if number, err := strconv.Atoi(name); err == nil {
				numbers = append(numbers, number)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// mostHole is how far apart the sequences of two records in a block may be. The server keeps
// four bytes and more for each sequence between them, before it looks at a record's hash.
const mostHole = 1 << 24

// ErrSequence is wrapped by the error of CheckSequences for a damaged record.
var ErrSequence = errors.New("the sequence of a record is damaged")

// CheckSequences reads the blocks of a server that does not run, and finds the first record whose damaged sequence
// would make the server allocate all memory. The error names that record and wraps ErrSequence.
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

// DiskAlone changes the files of a cluster's node, or better a copy of them, for a server without a cluster. It
// removes the logs that replicate streams, and sets the number of replicas of each stream to one.
func DiskAlone(dir string) error {
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, groupsFolder)), os.RemoveAll(filepath.Join(dir, noteFile))); err != nil {
		return err
	}
	streams, err := filepath.Glob(filepath.Join(dir, streamsFolder, "*"))
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if err := oneReplica(stream); err != nil {
			return err
		}
	}
	return nil
}

// The configuration of a stream is a JSON file. A second file has its HighwayHash in hexadecimal. The key of the hash
// is the stream's name.
const (
	configFile = "meta.inf"
	sumFile    = "meta.sum"
)

// oneReplica leaves a configuration that is damaged as it is: the server refuses
// the stream then.
func oneReplica(stream string) error {
	path := filepath.Join(stream, configFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // it is damaged
	}
	sum, err := os.ReadFile(filepath.Join(stream, sumFile))
	if err != nil || !bytes.Equal(sum, configSum(stream, data)) {
		return nil //nolint:nilerr // it is damaged
	}
	config := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	config["num_replicas"] = json.RawMessage("1")
	if data, err = json.Marshal(config); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(filepath.Join(stream, sumFile), configSum(stream, data), 0o600))
}

func configSum(stream string, config []byte) []byte {
	key := sha256.Sum256([]byte(filepath.Base(stream)))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	_, _ = hash.Write(config) // it never fails
	return []byte(hex.EncodeToString(hash.Sum(nil)))
}
