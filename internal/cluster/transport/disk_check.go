package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/minio/highwayhash"
	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/weir-counter/weir/internal/files"
)

// Damage is a file or folder that is damaged.
type Damage struct {
	Path string
	What string

	// Index, if it is not empty, is a file to remove. The damage is then at the end of a stream, and the log of its
	// group has what was there. Without its index the server reads the stream, cuts it where it is damaged, and
	// continues from the log.
	Index string

	atEnd bool // in the last block of a store
}

func (d Damage) String() string { return d.Path + ": " + d.What }

const (
	streamsFolder = "jetstream/$G/streams"
	groupsFolder  = "jetstream/$SYS/_js_"
	metaGroup     = "_meta_"

	indexFile = "index.db"
	keyValue  = "KV_" // a stream of which a message removes another
)

// DiskHasStreams reports whether a server has kept a stream below dir.
func DiskHasStreams(dir string) bool {
	streams, err := os.ReadDir(filepath.Join(dir, streamsFolder))
	return err == nil && len(streams) > 0
}

// CheckDisk reads all streams and logs of a cluster's node below dir, and returns what is damaged: records and
// snapshots whose checksum is wrong, and missing messages and entries. The stream unbroken loses messages only from
// its beginning. An empty dir is sound.
//
// Damage that looks like a crash is not reported: the end of a log may be cut off, because the leader has it. Files
// without a checksum, such as the file of the last vote, are not checked. CheckDisk reads everything that is stored,
// once.
func CheckDisk(dir, unbroken string) (found []Damage, err error) {
	if _, err := os.Stat(filepath.Join(dir, "jetstream")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	groups := readNote(dir)
	if groups == nil {
		return nil, nil
	}
	_, found, err = readGroup(filepath.Join(dir, groupsFolder, metaGroup), metaGroup, false)
	if err != nil {
		return nil, err
	}
	for stream, group := range groups {
		if strings.HasPrefix(stream, keyValue) || absent(filepath.Join(dir, groupsFolder, group)) && absent(filepath.Join(dir, streamsFolder, stream)) {
			continue // what it has can be had again, or it was moved to another node
		}
		log, damaged, err := readGroup(filepath.Join(dir, groupsFolder, group), group, true)
		if err != nil {
			return nil, err
		}
		found = append(found, damaged...)
		damaged, err = checkStream(filepath.Join(dir, streamsFolder, stream, "msgs"), stream, stream == unbroken, log)
		if err != nil {
			return nil, err
		}
		found = append(found, damaged...)
	}
	return found, nil
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// span is sequences without a hole.
type span struct{ first, last uint64 }

// checkStream reads a stream, and compares it with its log.
func checkStream(folder, stream string, unbroken bool, log raftLog) (found []Damage, err error) {
	var have []span // ascending
	end := uint64(0)
	blocks, found, err := readBlocks(folder, stream, func(r record) {
		end = max(end, r.sequence)
		if r.removed {
			return
		}
		switch n := len(have); {
		case n > 0 && r.sequence == have[n-1].last+1:
			have[n-1].last++
		case n == 0 || r.sequence > have[n-1].last:
			have = append(have, span{r.sequence, r.sequence})
		}
	})
	missing := func(first, last uint64) {
		found = append(found, Damage{Path: folder, What: fmt.Sprintf("messages %d to %d of stream %s are missing", first, last, stream)})
	}
	s := log.state
	if n := len(found); n == 1 && found[0].atEnd && (s == nil || s.Msgs == 0 || end >= s.LastSeq) {
		found[0].Index = filepath.Join(folder, indexFile)
	} else if n > 0 { // the damage says where; what follows from it need not be reported
		return found, err
	}
	if err != nil {
		return found, err
	}
	if blocks == 0 {
		return append(found, Damage{Path: folder, What: "all messages of stream " + stream + " are missing"}), nil
	}
	if unbroken {
		for i := 1; i < len(have); i++ {
			missing(have[i-1].last+1, have[i].first-1)
		}
	}
	switch {
	case s == nil || s.Msgs == 0:
	case end < s.LastSeq:
		missing(end+1, s.LastSeq)
	case !log.removals && !(log.appends && strings.HasPrefix(stream, keyValue)): // else messages may have been removed since
		deleted := map[uint64]bool{}
		for _, list := range s.Deleted {
			list.Range(func(sequence uint64) bool {
				deleted[sequence] = true
				return true
			})
		}
		for sequence := s.FirstSeq; sequence <= s.LastSeq; sequence++ {
			for len(have) > 0 && have[0].last < sequence {
				have = have[1:]
			}
			if (len(have) == 0 || sequence < have[0].first) && !deleted[sequence] {
				missing(sequence, sequence)
				break // the first of them is enough to know
			}
		}
	}
	return found, nil
}

// raftLog is what a node knows of what a group of replicas agreed on: a snapshot
// of the outcome, and what was proposed after it.
type raftLog struct {
	state    *natsserver.StreamReplicatedState // of a stream, at the snapshot; nil: there is none
	index    uint64                            // of the snapshot
	appends  bool                              // after the snapshot there are messages
	removals bool                              // after the snapshot there are other changes
}

// A snapshot is a file snap.TERM.INDEX, which contains in this order:
//
//	8 bytes each   term and index
//	4 bytes        length of the list of peers
//	               the peers, the state
//	8 bytes        HighwayHash under a key of the group's name
const snapshotBytes = 8 + 8 + 4 + sumBytes

var snapshotName = regexp.MustCompile(`^snap\.[0-9]+\.[0-9]+$`)

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

// An entry of the log:
//
//	40 bytes   leader, terms and indexes
//	2 bytes    number of proposals, then each:
//	               4 bytes length, 1 byte kind
//	               1 byte operation, if it concerns the stream and not the group
const (
	entryHead = 8 + 4*8

	opMessage    = 4 // of the server's entryOp, as the next ones
	opCompressed = 14
	opBatch      = 16
	opBatchEnd   = 17
)

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

// note says what files are to be checked by.
type note struct {
	Server string            `json:"server"` // that wrote them: another version may write them in another way
	Groups map[string]string `json:"groups"` // by stream: its group of replicas, which the folders' names do not tell
}

const noteFile = "groups.json"

// NoteDisk notes the groups of the streams that this node keeps, by the streams' names, for
// CheckDisk. They are on disk when NoteDisk returns.
func NoteDisk(dir string, groups map[string]string) error {
	data, err := json.Marshal(note{natsserver.VERSION, groups})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, noteFile)
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, data) {
		return nil
	}
	return files.WriteFileSynced(path, data)
}

// readNote returns no groups if nothing was noted, by this version of the server, that
// can be read: then there is nothing to check by.
func readNote(dir string) map[string]string {
	var is note
	data, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err != nil || json.Unmarshal(data, &is) != nil || is.Server != natsserver.VERSION {
		return nil
	}
	return is.Groups
}
