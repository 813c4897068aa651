package digest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/tail"
)

// Note is what a digest says beside hits. Its bytes, numbers as unsigned varints:
//
//	byte 0     'N'
//	byte 1     version: 1, or 2 with keys
//	8 bytes    identity of the region's journal, little endian
//	           partitions; retention in seconds; ms between digests
//	           position in the journal (package flushes)
//	           nodes of the region that are late: how many, then each: length of the name, name; ms of
//	           Unix time up to which its hits are in
//	           version 2: prefixes of the keys that the region tells: how many, then each as its length, its bytes
//	last 4     CRC-32C of all bytes before, little endian
type Note struct {
	Journal    uint64
	Partitions int
	Retention  time.Duration // whole seconds
	Every      time.Duration // between digests
	At         tail.FlushPosition
	Late       []Late
	Keys       Keys // that the region tells
}

// Late is a node of the region whose newer hits may be missing.
type Late struct {
	Node  string
	Since int64 // Unix ms
}

const (
	noteMagic   = 'N'
	plainNote   = 1
	noteVersion = 2
	maxLate     = 1000

	// MaxKeys bounds the prefixes of a region's Keys.
	MaxKeys = 16
)

// Encode is the bytes of the note. Of more than a thousand late nodes it names the first.
func (n Note) Encode() []byte {
	b := []byte{noteMagic, plainNote}
	if len(n.Keys) > 0 { // else older builds read it
		b[1] = noteVersion
	}
	b = binary.LittleEndian.AppendUint64(b, n.Journal)
	b = binary.AppendUvarint(b, uint64(n.Partitions))
	b = binary.AppendUvarint(b, uint64(n.Retention/time.Second))
	b = binary.AppendUvarint(b, uint64(n.Every/time.Millisecond))
	b = n.At.Append(b)
	late := n.Late[:min(len(n.Late), maxLate)]
	b = binary.AppendUvarint(b, uint64(len(late)))
	for _, l := range late {
		b = wire.AppendText(b, l.Node)
		b = binary.AppendUvarint(b, uint64(max(0, l.Since)))
	}
	if len(n.Keys) > 0 {
		b = binary.AppendUvarint(b, uint64(len(n.Keys)))
		for _, prefix := range n.Keys {
			b = wire.AppendText(b, prefix)
		}
	}
	return wire.Seal(b, 0)
}

// DecodeNote reads and checks a note.
func DecodeNote(data []byte) (n Note, err error) {
	version, r, err := wire.Open(data, noteMagic)
	if err != nil {
		return n, fmt.Errorf("%w: note of a digest: %w", record.ErrDamaged, err)
	}
	if version != noteVersion && version != plainNote {
		return n, fmt.Errorf("a digest's note in version %d: this build reads up to version %d: run a newer Weir here", version, noteVersion)
	}
	n.Journal = r.Uint64()
	n.Partitions = int(r.AtMost(record.MaxPartitions))
	n.Retention = time.Duration(r.AtMost(maxSeconds)) * time.Second
	n.Every = time.Duration(r.AtMost(maxSeconds*1000)) * time.Millisecond
	n.At = tail.ReadFlushPosition(&r)
	for range r.AtMost(maxLate) {
		n.Late = append(n.Late, Late{r.Text(record.MaxNodeBytes), int64(r.AtMost(1 << 60))})
	}
	if version == noteVersion {
		for range r.AtMost(MaxKeys) {
			n.Keys = append(n.Keys, r.Text(weir.MaxKeyBytes))
		}
	}
	if !r.Done() || n.Partitions == 0 || n.Retention == 0 || n.Every == 0 {
		return n, fmt.Errorf("%w: note of a digest: its checksum is right, its content is not", record.ErrDamaged)
	}
	return n, nil
}

const maxSeconds = 1_000_000_000

// OriginOf is the origin that the digests of a region have, which follows from its name.
func OriginOf(region string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(region)) // a hash takes everything
	return hash.Sum64()
}
