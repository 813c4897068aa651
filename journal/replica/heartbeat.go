package replica

import (
	"encoding/binary"
	"time"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
)

// Heartbeat is what a node says of itself each heartbeat, beside the journal and of its own
// clock only how much time has passed: clocks of others need not agree with it.
type Heartbeat struct {
	record.Incarnation
	Node    string
	Promise time.Duration // see promised
	Flush   uint64        // its last one that is in the journal
	Age     time.Duration // since it began to gather that: what it took before is in the journal
}

// On the wire a beat is 'B', version 1, 8 bytes origin, little endian, then as unsigned varints
// epoch, flush, age and promise in ms, and the node's name.
const (
	heartbeatMagic   = 'B'
	heartbeatVersion = 1
)

// Encode is the bytes of a beat.
func (b Heartbeat) Encode() []byte {
	data := []byte{heartbeatMagic, heartbeatVersion}
	data = binary.LittleEndian.AppendUint64(data, b.Origin)
	data = binary.AppendUvarint(data, b.Epoch)
	data = binary.AppendUvarint(data, b.Flush)
	data = binary.AppendUvarint(data, uint64(max(0, b.Age.Milliseconds())))
	data = binary.AppendUvarint(data, uint64(b.Promise.Milliseconds()))
	return append(data, b.Node...)
}

// longest bounds the times of a beat: beyond that it is made up.
const longest = 366 * 24 * time.Hour

// DecodeHeartbeat is false where it is cut, made up, or of another version.
func DecodeHeartbeat(data []byte) (b Heartbeat, ok bool) {
	if len(data) < 10 || data[0] != heartbeatMagic || data[1] != heartbeatVersion {
		return Heartbeat{}, false
	}
	b.Origin = binary.LittleEndian.Uint64(data[2:])
	r := wire.NewReader(data[10:])
	b.Epoch, b.Flush = r.Uvarint(), r.Uvarint()
	b.Age = time.Duration(r.AtMost(uint64(longest.Milliseconds()))) * time.Millisecond
	b.Promise = time.Duration(r.AtMost(uint64(longest.Milliseconds()))) * time.Millisecond
	if r.Failed() || r.Len() > record.MaxNodeBytes {
		return Heartbeat{}, false
	}
	b.Node = string(r.Rest())
	return b, true
}

// Written is the last flush of this life that is in the journal.
type Written struct {
	Flush uint64
	Began time.Time // to be gathered
}
