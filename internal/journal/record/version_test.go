package record

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// partOf is a part with one batch, as a build of a version writes it.
func partOf(version byte, flags byte, partition, kind uint64, entries []byte) []byte {
	incarnation := Incarnation{Origin: 7, Epoch: 1}
	batch := binary.AppendUvarint(nil, partition<<kindBits|kind)
	batch = append(batch, 1, 1) // seq, total
	batch = wire.AppendBlock(batch, entries)
	batch = binary.LittleEndian.AppendUint32(batch, incarnation.sum(batch))
	b := binary.LittleEndian.AppendUint64([]byte{flushMagic, version}, incarnation.Origin)
	b = append(b, 1, 1, 0, flags, 0, 9, 1) // epoch, flush, part, flags, no node, at, one batch
	b = append(append(b, batch...), 0)     // receipts
	return wire.Seal(append(b, 0), 0)      // requests
}

// What the build before wrote is read: its flushes are in journals and in backups.
func TestEarlierVersionsAreRead(t *testing.T) {
	hit := appendEntry(nil, replication.Delta{Key: "k", At: 5, N: 1}, "", 0)
	for _, c := range []struct {
		name     string
		data     []byte
		kind     uint64
		restored bool
	}{
		{"hits of the build before", partOf(6, flagLast, 300, KindHits, hit), KindHits, false},
		{"hits", partOf(7, flagLast, 300, KindHits, hit), KindHits, false},
		{"restored", partOf(7, flagLast|flagRestored, 300, KindClear, []byte{1}), KindClear, true},
	} {
		p, err := DecodePart(c.data)
		if err != nil || len(p.Batches) != 1 || p.Batches[0].Partition != 300 || p.Batches[0].Kind != c.kind || p.Restored != c.restored {
			t.Errorf("%s: %v, %+v", c.name, err, p)
		}
	}
}

// A newer build's flush is refused by name, and is not taken for damage: no repair may
// throw it away.
func TestNewerKindIsRefusedByName(t *testing.T) {
	for part, why := range map[string]string{
		string(partOf(7, flagLast, 3, kinds, []byte("anything"))): "kind 9: this build knows kinds 0 to 8",
		string(partOf(8, flagLast, 3, KindHits, nil)):             "version 8: this build reads versions 6 and 7",
	} {
		_, err := DecodePart([]byte(part))
		if !errors.Is(err, wire.ErrVersion) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}
