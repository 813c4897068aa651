package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// A backup is one file: the partitions' snapshots and the messages of the
// journal after them, which a restore applies as a start does. So it is the
// counts of one moment, between two flushes, although it was taken while hits
// came in. Version 1, or 2 with history:
//
//	8 bytes    "WEIRBAK" and the version
//	sections:
//	    1 byte   kind
//	    4 bytes  length of the content, little endian
//	             content
//	    4 bytes  CRC-32C of the section's number (8 bytes, from 0, little endian),
//	             its kind, its length and its content
//
// The kinds, in the order in which they come:
//
//	'H'  once: what the file is, in JSON (BackupInfo)
//	'S'  a snapshot, for each partition that has one (see snapshot)
//	'F'  a message of the journal: its sequence, 8 bytes little endian, and a part
//	     of a flush (see flush.go); without a gap
//	'D'  a piece of the SQLite file of the history, which has all hits up to the last message
//	'Z'  once: SHA-256 of all bytes before this section. The file ends after it.
const (
	fileMagic      = "WEIRBAK"
	fileVersion    = 1
	historyVersion = 2 // of a file with history

	sectionInfo     = 'H'
	SectionSnapshot = 'S'
	SectionFlush    = 'F'
	sectionHistory  = 'D'
	sectionEnd      = 'Z'

	sectionHeadBytes = 5
	maxInfoBytes     = 2 << 20
)

// Info says what a backup holds.
type Info struct {
	Taken      time.Time `json:"taken"`
	Journal    uint64    `json:"journal,omitempty"` // identity of the journal it was taken of; 0: of a version without
	Merged     []uint64  `json:"merged,omitempty"`  // origins of other journals whose backups were merged into this journal
	Origin     uint64    `json:"origin"`            // of the data directory that it was taken from
	Epoch      uint64    `json:"epoch"`
	Cluster    bool      `json:"cluster,omitempty"` // it has the batches of many nodes
	Partitions int       `json:"partitions"`
	RetentionS int64     `json:"retention_s"`
	First      uint64    `json:"first"` // sequence of the first message of the journal in it
	Last       uint64    `json:"last"`  // and of the last; First-1 if there is none

	History bool `json:"history,omitempty"` // it has the history

	ClockSet record.ClockSets `json:"clock_set,omitempty"` // of the directory: when the time of day was set

	Policies []byte `json:"policies,omitempty"` // that were put by API, as package policy/kept reads them

	Snapshots int   `json:"-"` // in the file
	Bytes     int64 `json:"-"` // of the file
}

// Writer writes sections.
type Writer struct {
	w      *bufio.Writer
	whole  hash.Hash
	number uint64
}

// NewWriter begins a file, and writes what it is.
func NewWriter(w io.Writer, info Info) (*Writer, error) {
	b := &Writer{w: bufio.NewWriterSize(w, 256<<10), whole: sha256.New()}
	version := byte(fileVersion)
	if info.History {
		version = historyVersion
	}
	if err := b.write([]byte(fileMagic), []byte{version}); err != nil {
		return nil, err
	}
	content, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	return b, b.Section(sectionInfo, content)
}

func (b *Writer) write(parts ...[]byte) error {
	for _, p := range parts {
		b.whole.Write(p) // a hash takes everything
		if _, err := b.w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Section writes one, of at most 4 GiB, with its checksum.
func (b *Writer) Section(kind byte, content ...[]byte) error {
	length := 0
	for _, c := range content {
		length += len(c)
	}
	if length > 1<<32-1 {
		return fmt.Errorf("a section of %d bytes: it can have 4 GiB", length)
	}
	head := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(length))
	sum := sectionSum(b.number, head)
	for _, c := range content {
		sum = wire.AddSum(sum, c)
	}
	b.number++
	if err := b.write(head); err != nil {
		return err
	}
	if err := b.write(content...); err != nil {
		return err
	}
	return b.write(binary.LittleEndian.AppendUint32(nil, sum))
}

// End writes the last section.
func (b *Writer) End() error {
	if err := b.Section(sectionEnd, b.whole.Sum(nil)); err != nil {
		return err
	}
	return b.w.Flush()
}

func sectionSum(number uint64, head []byte) uint32 {
	return wire.Sum(append(binary.LittleEndian.AppendUint64(nil, number), head...))
}

// Reader reads sections, and checks each.
type Reader struct {
	r      *bufio.Reader
	whole  hash.Hash
	number uint64
	bytes  int64
	buf    bytes.Buffer // content of the last section
	Info   Info
	seen   map[uint64]bool // origins of what was read
	file   io.Closer       // of Spool.Open

	history func(piece []byte) error // takes the file of the history; nil: nobody wants it
}

// Close ends the reading of a file.
func (b *Reader) Close() { _ = b.file.Close() } // it was read only

// Origins are whose hits are in it, as far as it was read.
func (b *Reader) Origins() []uint64 {
	b.saw(b.Info.Origin)
	for _, origin := range b.Info.Merged {
		b.saw(origin)
	}
	return slices.Sorted(maps.Keys(b.seen))
}

func (b *Reader) saw(origin uint64) {
	if b.seen == nil {
		b.seen = map[uint64]bool{}
	}
	b.seen[origin] = true
}

// ErrNoBackup is what other files are.
var ErrNoBackup = errors.New("this is not a backup of Weir: its first bytes are wrong")

// errCut is what a backup is that ends early.
var errCut = fmt.Errorf("%w: the backup is cut short", record.ErrDamaged)

// NewReader begins to read a file, and checks that it is a backup of a version that this build
// knows.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, 256<<10), whole: sha256.New()}
	head := make([]byte, len(fileMagic)+1)
	if err := b.read(head); err != nil {
		return nil, err
	}
	if string(head[:len(fileMagic)]) != fileMagic {
		return nil, ErrNoBackup
	}
	if v := head[len(fileMagic)]; v < fileVersion || v > historyVersion {
		return nil, fmt.Errorf("a backup in version %d: this build reads versions %d and %d", v, fileVersion, historyVersion)
	}
	kind, content, err := b.section()
	if err != nil {
		return nil, err
	}
	if kind != sectionInfo || len(content) > maxInfoBytes {
		return nil, fmt.Errorf("%w: section 0 does not say what the backup is", record.ErrDamaged)
	}
	if err := json.Unmarshal(content, &b.Info); err != nil {
		return nil, fmt.Errorf("%w: section 0: %w", record.ErrDamaged, err)
	}
	return b, nil
}

func (b *Reader) read(p []byte) error {
	n, err := io.ReadFull(b.r, p)
	b.bytes += int64(n)
	b.whole.Write(p[:n])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// section reads the next section; its content is good until the next call.
func (b *Reader) section() (kind byte, content []byte, err error) {
	before := b.whole.Sum(nil) // for the last section
	head := make([]byte, sectionHeadBytes)
	if err := b.read(head); err != nil {
		return 0, nil, err
	}
	b.buf.Reset() // grows as the bytes come: a spoiled length must not take memory
	n, err := io.CopyN(io.MultiWriter(&b.buf, b.whole), b.r, int64(binary.LittleEndian.Uint32(head[1:])))
	b.bytes += n
	if errors.Is(err, io.EOF) {
		return 0, nil, errCut
	}
	if err != nil {
		return 0, nil, err
	}
	sum := make([]byte, wire.SumBytes)
	if err := b.read(sum); err != nil {
		return 0, nil, err
	}
	want := wire.AddSum(sectionSum(b.number, head), b.buf.Bytes())
	if got := binary.LittleEndian.Uint32(sum); got != want {
		return 0, nil, fmt.Errorf("%w: section %d of the backup: checksum %08x, want %08x", record.ErrDamaged, b.number, got, want)
	}
	b.number++
	if head[0] == sectionEnd {
		return sectionEnd, nil, b.checkEnd(before)
	}
	return head[0], b.buf.Bytes(), nil
}

// checkEnd checks what the last section says of the whole.
func (b *Reader) checkEnd(whole []byte) error {
	if !bytes.Equal(b.buf.Bytes(), whole) {
		return fmt.Errorf("%w: the backup's SHA-256 is %x, want %x", record.ErrDamaged, whole, b.buf.Bytes())
	}
	_, err := b.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("%w: something follows the backup's end", record.ErrDamaged))
}
