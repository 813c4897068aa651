package record

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/weir-counter/weir/internal/wire"
)

// A sealed message that announces as many parts as it has bytes takes no memory for them.
func TestHostileCounts(t *testing.T) { // not in parallel: it measures the memory of the process
	const size = 2 << 20                                                 // of a frame between regions
	head := append([]byte{flushMagic, flushVersion}, make([]byte, 8)...) // origin
	head = append(head, 1, 1, 0, flagLast, 1, 'n', 1)                    // epoch, flush, number, flags, node, at
	for name, content := range map[string][]byte{
		"batches":        append(binary.AppendUvarint(head, size), make([]byte, size)...),
		"empty receipts": append(binary.AppendUvarint(append(head, 0), size), make([]byte, size)...),
	} {
		data := wire.Seal(content, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodePart(data)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %d MiB, %v", name, took>>20, err)
		}
	}
}
