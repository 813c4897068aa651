package region

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// Regions send each other digests and bases. A digest adds up what the journal has since the one before (Sum). A base is the
// whole state of a region at a digest. The bytes of a digest are a flush of package record: its origin is the region, and
// its one receipt a Note. The bytes of a base are pieces (Piece).
//
// Invariants: a Sum has every hit, removal and restored window that was added, and the order of removals among the hits of
// their key. It does not depend on how many nodes a partition's hits came from. The Note says up to which flush of the
// journal a digest reaches.
//
// It is pure: no clock, no network, no goroutine.

// ID identifies a digest of a region. A base has the ID of the digest that it is the state after.
type ID struct {
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"` // from 1 in each epoch
}

// Before reports whether an ID is older than another.
func (id ID) Before(o ID) bool { return id.Epoch < o.Epoch || id.Epoch == o.Epoch && id.Seq < o.Seq }

// Message is a part of a digest, or a piece of a base.
type Message struct {
	Region string
	ID
	Number uint64 // of the part or piece, from 0
	Last   bool
	At     int64 // Unix ms: it has all hits that the region took until then, except for hits of late nodes

	Part  record.Part // of a digest
	Piece *Piece      // of a base; nil: it is a part of a digest
	Note  *Note       // of the last part or piece, unless Gone
	Gone  bool        // the region was forgotten: it has no hits from here on
}

// Piece is a piece of a base: some bytes of the state of a partition, or, the last one, the note. Its bytes, numbers as
// unsigned varints:
//
//	byte 0     'B'
//	byte 1     version, 2
//	           length of the region's name, name; epoch, seq of the digest that the base is the state after
//	           number of the piece, from 0; hash of the pieces before it (NextHash), or a random number; at
//	           a byte: 0 more of the partition follows, 1 its last piece, 2 the last piece of the base
//	           partition; seq and total of the region's batches of it so far (record/flush.go)
//	           length of the bytes, the bytes: of the state (package weir), or the note
//	last 4     CRC-32C of all bytes before, little endian
type Piece struct {
	Before    uint64 // NextHash of the pieces before it; of the first piece a random number, so that bases of one digest do not mix
	Partition int
	Whole     bool // the partition's last
	Seq       uint64
	Total     uint64
	Bytes     []byte
}

const (
	pieceMagic   = 'B'
	pieceVersion = 2

	pieceMore  = 0
	pieceWhole = 1
	pieceLast  = 2

	// PieceBytes is how much of a state a piece has at most.
	PieceBytes = 512 << 10
)

// Encode is the bytes of a message that is a piece of a base.
func (m Message) Encode() []byte {
	b := make([]byte, 0, len(m.Piece.Bytes)+len(m.Region)+64)
	return wire.Seal(wire.Append(append(b, pieceMagic, pieceVersion), m.pieceFields), 0)
}

func (m *Message) pieceFields(c *wire.Codec) {
	p, kind := m.Piece, byte(pieceMore)
	switch {
	case m.Last:
		kind = pieceLast
	case p.Whole:
		kind = pieceWhole
	}
	c.Text(&m.Region, record.MaxNodeBytes)
	c.Uvarints(&m.Epoch, &m.Seq, &m.Number, &p.Before)
	wire.Number(c, &m.At, 1<<60)
	if c.Byte(&kind); kind > pieceLast {
		c.Fail()
	}
	if c.Reads() {
		m.Last, p.Whole = kind == pieceLast, kind == pieceWhole
	}
	wire.Number(c, &p.Partition, record.MaxPartitions)
	c.Uvarints(&p.Seq, &p.Total)
	c.Block(&p.Bytes)
}

// Decode reads and checks a message, which refers to data. The error for a sound message of another version is not
// record.ErrDamaged.
func Decode(data []byte) (Message, error) {
	if len(data) > 0 && data[0] == pieceMagic {
		return decodePiece(data)
	}
	p, err := record.DecodePart(data)
	if err != nil {
		return Message{}, err
	}
	m := Message{Region: p.Node, ID: ID{p.Epoch, p.Flush}, Number: p.Number, Last: p.Last, At: p.At, Part: p, Gone: p.Leaving}
	if err := CheckName(m.Region); err != nil || p.Origin != OriginOf(m.Region) {
		return Message{}, fmt.Errorf("%w: a flush of %q, which is not a region", record.ErrDamaged, p.Node)
	}
	if !p.Last || p.Leaving {
		return m, nil
	}
	if len(p.Receipts) != 1 {
		return Message{}, fmt.Errorf("%w: a digest without a note", record.ErrDamaged)
	}
	note, err := DecodeNote(p.Receipts[0])
	m.Note = &note
	return m, err
}

func decodePiece(data []byte) (m Message, err error) {
	version, r, err := wire.Open(data, pieceMagic)
	if err != nil {
		return m, fmt.Errorf("%w: piece of a base: %w", record.ErrDamaged, err)
	}
	if version != pieceVersion {
		return m, fmt.Errorf("a piece of a base in version %d: this build reads version %d: run the same version of Weir in all regions", version, pieceVersion)
	}
	m.Piece = &Piece{}
	wire.Read(&r, m.pieceFields)
	if !r.Done() || CheckName(m.Region) != nil {
		return m, fmt.Errorf("%w: piece of a base: its checksum is right, its content is not", record.ErrDamaged)
	}
	if !m.Last {
		return m, nil
	}
	note, err := DecodeNote(m.Piece.Bytes)
	m.Note = &note
	return m, err
}

// CheckName returns what is wrong with the name of a region.
func CheckName(name string) error {
	if name == "" || len(name) > record.MaxNodeBytes {
		return fmt.Errorf("a region's name has 1 to %d bytes", record.MaxNodeBytes)
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%q: a region's name has letters, digits, '-', '_' and '.' alone", name)
		}
	}
	return nil
}

// Pieces cuts the state of a partition into pieces of a base, of at most so many bytes.
func Pieces(partition int, seq, total uint64, state []byte, most int) (list []Piece) {
	for {
		n := min(len(state), most)
		list = append(list, Piece{Partition: partition, Whole: n == len(state), Seq: seq, Total: total, Bytes: state[:n]})
		if state = state[n:]; len(state) == 0 {
			return list
		}
	}
}

// Gone returns the message that ends a region: nothing older of it counts.
func Gone(region string, epoch uint64, at int64) []byte {
	e := record.NewEncoder(record.Incarnation{Origin: OriginOf(region), Epoch: epoch}, 1)
	e.Node, e.Leaving = region, true
	e.Begin(time.UnixMilli(at))
	return e.End(nil)[0]
}

// Begun is a base of which some pieces have come: how many, and a hash of them. A region that has the same base sends the
// rest.
type Begun struct {
	ID
	Pieces uint64 `json:"pieces"`
	Hash   uint64 `json:"hash"`
}

// NextHash returns the hash of pieces with one more, which is encoded.
func NextHash(hash uint64, piece []byte) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, hash)) // a hash takes everything
	h.Write(piece)
	return h.Sum64()
}
