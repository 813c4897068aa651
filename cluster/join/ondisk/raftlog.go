package ondisk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/minio/highwayhash"
	natsserver "github.com/nats-io/nats-server/v2/server"
)

// raftLog is what a node knows of what a group of replicas agreed on: a snapshot
// of the outcome, and what was proposed after it.
type raftLog struct {
	state    *natsserver.StreamReplicatedState // of a stream, at the snapshot; nil: there is none
	index    uint64                            // of the snapshot
	appends  bool                              // after the snapshot there are messages
	removals bool                              // after the snapshot there are other changes
}

// A snapshot is a file snap.TERM.INDEX: term and index, 8 bytes each, the length of
// the list of peers, 4 bytes, the peers, the state, and 8 bytes of HighwayHash
// under a key of the group's name.
const snapshotBytes = 8 + 8 + 4 + sumBytes

var snapshotName = regexp.MustCompile(`^snap\.[0-9]+\.[0-9]+$`)

// readGroup reads the folder of a group.
func readGroup(folder, group string, ofStream bool) (l raftLog, found []Damage, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "snapshots", "snap.*"))
	if err != nil {
		return l, nil, err
	}
	for _, path := range paths {
		if !snapshotName.MatchString(filepath.Base(path)) {
			continue // it was not yet whole when the process ended
		}
		index, state, err := readSnapshot(path, group)
		switch {
		case err != nil:
			found = append(found, Damage{Path: path, What: err.Error()})
		case index >= l.index:
			l.index = index
			if ofStream {
				if l.state, err = natsserver.DecodeStreamState(state); err != nil {
					found = append(found, Damage{Path: path, What: err.Error()})
				}
			}
		}
	}
	messages, next, begins := filepath.Join(folder, "msgs"), uint64(0), len(found) == 0 // else it is not known where
	blocks, damaged, err := readBlocks(messages, group, func(r record) {
		switch {
		case r.removed || r.erased || r.sequence <= l.index:
			return
		case next == 0 && begins:
			next = l.index + 1
		case next == 0:
			next = r.sequence
		}
		if r.sequence > next {
			found = append(found, Damage{Path: messages, What: fmt.Sprintf("entries %d to %d of the log of replica group %s are missing", next, r.sequence-1, group)})
		}
		next = r.sequence + 1
		l.entry(r.message)
	})
	found = append(found, damaged...)
	if blocks == 0 && err == nil {
		found = append(found, Damage{Path: messages, What: "the log of replica group " + group + " is missing"})
	}
	return l, found, err
}

func readSnapshot(path, group string) (index uint64, state []byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	if len(data) < snapshotBytes {
		return 0, nil, fmt.Errorf("it is cut off after %d bytes", len(data))
	}
	key := sha256.Sum256([]byte(group))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return 0, nil, err
	}
	end := len(data) - sumBytes
	_, _ = hash.Write(data[:end]) // it never fails
	peers := 20 + int(binary.LittleEndian.Uint32(data[16:]))
	if !bytes.Equal(hash.Sum(nil), data[end:]) || peers > end {
		return 0, nil, errors.New("its checksum is wrong")
	}
	return binary.LittleEndian.Uint64(data[8:]), data[peers:end], nil
}

// An entry of the log has 40 bytes of who and when, the number of proposals in it,
// 2 bytes, and each with its length, 4 bytes, its kind, 1 byte, and, if it is about
// the stream and not the group, what it does to it, 1 byte.
const (
	entryHead = 8 + 4*8

	opMessage    = 4 // of the server's entryOp, as the next ones
	opCompressed = 14
	opBatch      = 16
	opBatchEnd   = 17
)

// entry takes note of what an entry does.
func (l *raftLog) entry(data []byte) {
	if len(data) < entryHead+2 {
		return
	}
	count, rest := binary.LittleEndian.Uint16(data[entryHead:]), data[entryHead+2:]
	for ; count > 0 && len(rest) > 5; count-- {
		if natsserver.EntryType(rest[4]) == natsserver.EntryNormal {
			switch rest[5] {
			case opMessage, opCompressed, opBatch, opBatchEnd:
				l.appends = true
			default:
				l.removals = true
			}
		}
		length := 4 + int(binary.LittleEndian.Uint32(rest))
		if length > len(rest) {
			break
		}
		rest = rest[length:]
	}
}
