package ondisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Damage is a file or folder that is damaged.
type Damage struct {
	Path string
	What string

	// Index, if it is not empty, is a file to remove: the damage is at the end of a
	// stream, and the log of its group has what was there. Without its index the
	// server reads the stream, cuts it where it is damaged, and goes on by the log.
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

// HasStreams tells whether a server has kept a stream below dir.
func HasStreams(dir string) bool {
	streams, err := os.ReadDir(filepath.Join(dir, streamsFolder))
	return err == nil && len(streams) > 0
}

// Check reads all streams and logs of a cluster's node below dir, and returns what is
// damaged: records and snapshots whose checksum is wrong, and messages and
// entries that are missing. unbroken is a stream of which messages are removed
// from the beginning only. An empty dir is sound: it has nothing to be wrong.
//
// What can't be told from a crash is not damage: the end of a log that was cut off,
// which a leader has; nor does it know of changes to files without a checksum,
// as the one of the last vote. It reads as much as is stored, once.
func Check(dir, unbroken string) (found []Damage, err error) {
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

// checkStream reads a stream, and compares it with what its log says of it.
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
	} else if n > 0 { // which tells where, and what follows from it need not be told
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
