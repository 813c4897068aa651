package admission

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// The bits of the last byte of a limitRecord. A record that has none of them ends
// before.
const (
	recordStrict = 1 << iota
	recordInline
	recordBits = 1<<iota - 1
)

// recordCalendar stands for the algorithm in the record of a quota by the calendar.
const recordCalendar = 16

// limitRecord is a name and a limit in bytes: length of the name, name, algorithm,
// N, period in ns, burst. A quota by the calendar has unit, anchor and zone then. A byte
// of bits follows if any is set.
func limitRecord(name string, l limit.Limit, bits byte) string {
	algorithm := uint64(l.Algorithm)
	if l.Calendar.Unit != limit.NoUnit {
		algorithm = recordCalendar
	}
	b := wire.AppendText(nil, name)
	for _, v := range []uint64{algorithm, l.N, uint64(l.Per), l.Burst} {
		b = binary.AppendUvarint(b, v)
	}
	if c := l.Calendar; algorithm == recordCalendar {
		b = binary.AppendUvarint(append(b, byte(c.Unit)), uint64(c.Anchor))
		b = wire.AppendText(b, c.Zone)
	}
	if bits != 0 {
		b = append(b, bits)
	}
	return string(b)
}

// flags are the bits of the plan's record.
func (p *Plan) flags() (bits byte) {
	if p.Strict {
		bits |= recordStrict
	}
	if p.Inline {
		bits |= recordInline
	}
	return bits
}

// recorded reads a limitRecord. Plans of equal records are one.
func (ls *Table) recorded(record string) (*Plan, error) {
	ls.mu.Lock()
	plan := ls.records[record]
	ls.mu.Unlock()
	if plan != nil {
		return plan, nil
	}
	r := wire.NewReader([]byte(record))
	name := string(r.Block())
	l := limit.Limit{Algorithm: limit.Algorithm(r.AtMost(math.MaxUint8)), N: r.Uvarint(), Per: time.Duration(r.Uvarint()), Burst: r.Uvarint()}
	if l.Algorithm == recordCalendar {
		l.Algorithm = limit.Fixed
		l.Calendar = limit.Calendar{Unit: limit.Unit(r.Byte()), Anchor: int(r.AtMost(31)), Zone: r.Text(64)}
		if l.Calendar.Unit == limit.NoUnit {
			r.Fail()
		}
	}
	var bits byte
	if r.Len() > 0 {
		bits = r.Byte()
	}
	made, err := limit.New(l)
	if err == nil {
		err = checkKept(name)
	}
	if err != nil || !r.Done() || bits&^byte(recordBits) != 0 {
		return nil, fmt.Errorf("%w: the limit of an admission: %w", replication.ErrDamagedState, errors.Join(err))
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.records) >= MaxNames {
		clear(ls.records) // what is in use is soon back
	}
	plan = &Plan{Plan: made.ByTimeOfDay(ls.Clock.Ahead), Name: ls.name(name), journaled: true, Record: record,
		Strict: bits&recordStrict != 0, Inline: bits&recordInline != 0}
	ls.records[record] = plan
	return plan, nil
}
