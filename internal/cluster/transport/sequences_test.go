package transport

import (
	"encoding/binary"
	"testing"
)

// A sequence that is far away is damage only if its record is not sound; what is torn is the server's.
func TestFarSequence(t *testing.T) {
	record := func(sequence uint64) []byte {
		data := make([]byte, headerBytes+sumBytes)
		binary.LittleEndian.PutUint32(data, uint32(len(data)))
		binary.LittleEndian.PutUint64(data[4:], sequence)
		return data
	}
	b := newBlock("S", 1)
	for _, c := range []struct {
		second uint64
		ok     bool
	}{{8, true}, {7 + mostHole, true}, {7 + 1<<40, false}, {1<<40 | erased, false}, {1<<40 | removed, true}} {
		data := append(record(7), record(c.second)...)
		if at, ok := farSequence(b, append(data, 1, 2, 3)); ok != c.ok || !ok && at != headerBytes+sumBytes {
			t.Errorf("%d: %d, %v", c.second, at, ok)
		}
	}
}
