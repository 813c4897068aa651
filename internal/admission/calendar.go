package admission

import (
	"encoding/binary"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// recordCalendar stands for the algorithm in the record of a quota by the calendar.
const recordCalendar = 16

func recordedAlgorithm(l limit.Limit) uint64 {
	if l.Calendar.Unit != limit.NoUnit {
		return recordCalendar
	}
	return uint64(l.Algorithm)
}

// appendCalendar writes unit, anchor and zone of one.
func appendCalendar(b []byte, c limit.Calendar) []byte {
	if c.Unit == limit.NoUnit {
		return b
	}
	b = append(b, byte(c.Unit))
	b = binary.AppendUvarint(b, uint64(c.Anchor))
	return wire.AppendText(b, c.Zone)
}

func readCalendar(r *wire.Reader, l *limit.Limit) {
	if l.Algorithm != recordCalendar {
		return
	}
	l.Algorithm = limit.Fixed
	l.Calendar = limit.Calendar{Unit: limit.Unit(r.Byte()), Anchor: int(r.AtMost(31)), Zone: r.Text(64)}
	if l.Calendar.Unit == limit.NoUnit {
		r.Fail()
	}
}
