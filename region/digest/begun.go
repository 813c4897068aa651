package digest

import (
	"encoding/binary"
	"hash/fnv"
)

// Begun is a base that has begun: how many pieces of it are there, and a hash of them. Who has the same base goes on after them.
type Begun struct {
	ID
	Pieces uint64
	Hash   uint64
}

// NextHash is the hash of pieces with one more, which is given as it is encoded; of no pieces it is 0.
func NextHash(hash uint64, piece []byte) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, hash)) // a hash takes everything
	h.Write(piece)
	return h.Sum64()
}
