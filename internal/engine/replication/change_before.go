package replication

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/weir-counter/weir/internal/wire"
)

// Up to flushes of version 5 and states of version 7, a change was an admission of a limit with bits that said that it was none. The
// limit is followed by the bits, and with bitChange by the number of the change and its fields.
const (
	bitForget      = 4
	bitForgetAll   = 8
	bitChange      = 16
	bitOutstanding = 32
)

// ChangeBefore is the change that an admission was that an earlier build wrote; nil: it is of a limit.
func ChangeBefore(a Admission) (Change, error) {
	of, r, bits := readBefore(a)
	switch {
	case r.Failed():
		return nil, ErrDamagedState
	case bits&bitOutstanding != 0:
		return &Outstanding{of.ChangeOf, of.holder, max(a.N, 1) - 1, of.per}, nil
	case bits&bitForgetAll != 0:
		return &ForgetInline{ChangeOf{At: a.At}}, nil
	case bits&bitForget != 0:
		return &ForgetInline{ChangeOf{Name: of.Name, At: a.At}}, nil
	case bits&bitChange == 0:
		return nil, nil
	}
	var made Change
	switch r.Byte() {
	case 1:
		made = &Refund{of.ChangeOf, a.N}
	case 2:
		made = &Reset{of.ChangeOf}
	case 3:
		made = &Grant{of.ChangeOf, r.Uvarint(), int64(r.AtMost(1<<63 - 1))}
	case 4:
		made = &Spend{of.ChangeOf, a.N}
	case 5:
		made = reservationBefore(of.ChangeOf, r, a.N)
	case 6:
		made = &Settlement{ChangeOf: of.ChangeOf, ID: r.Text(maxChangeKey), Used: r.Uvarint(), Back: r.Uvarint()}
	case 7:
		made = &Ban{of.ChangeOf, int64(r.AtMost(1<<63 - 1))}
	case 8:
		made = &Permit{of.ChangeOf, holderBefore(r), int64(r.AtMost(1<<63 - 1))}
	case 9:
		made = &ForgetKeys{ChangeOf{Key: string(r.Bytes(r.Len())), At: a.At}}
	default:
		r.Fail()
	}
	if !r.Done() {
		return nil, fmt.Errorf("%w: a change to limit %.80q", ErrDamagedState, of.Name)
	}
	return made, nil
}

// before is what an admission has that is no limit.
type before struct {
	ChangeOf
	holder string
	per    int64
}

// readBefore reads the limit of an admission up to its bits.
func readBefore(a Admission) (of before, r *wire.Reader, bits byte) {
	r = wire.NewReader([]byte(a.Limit))
	name, holder, _ := strings.Cut(string(r.Block()), "@@")
	of = before{ChangeOf: ChangeOf{name, a.Key, a.At}, holder: holder}
	algorithm := r.Uvarint()
	_, per, _ := r.Uvarint(), r.AtMost(1<<63-1), r.Uvarint()
	of.per = int64(per)
	if algorithm == 16 { // a quota by the calendar
		_, _, _ = r.Byte(), r.Uvarint(), r.Block()
	}
	if r.Len() > 0 {
		bits = r.Byte()
	}
	return of, r, bits
}

func reservationBefore(of ChangeOf, r *wire.Reader, n uint64) *Reservation {
	made := &Reservation{ChangeOf: of, N: n, Until: int64(r.AtMost(1<<63 - 1)), Back: r.Bool(), ID: r.Text(maxChangeKey)}
	if r.Len() > 0 {
		made.Content = r.Uvarint()
	}
	return made
}

func holderBefore(r *wire.Reader) uint64 {
	if b := r.Bytes(8); len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// changesBefore are the changes that what a state has of a limit was; false: it is of a limit.
func changesBefore(l LimitState) (made []Change, was bool, err error) {
	of, r, bits := readBefore(Admission{Limit: l.Record, Key: l.Key})
	if bits&(bitChange|bitOutstanding) == 0 {
		return nil, false, nil
	}
	state := wire.NewReader(l.State)
	switch kind := r.Byte(); {
	case bits&bitOutstanding != 0:
		_, at, n := state.Uvarint(), state.Uvarint(), uint64(1)
		if at&1 == 1 {
			n = state.Uvarint()
		}
		of.At = max(0, (int64(at>>1)+l.Ahead)/1e6)
		return []Change{&Outstanding{of.ChangeOf, of.holder, n - 1, of.per}}, true, doneBefore(state)
	case kind == 3:
		made = append(made, &Grant{of.ChangeOf, state.Uvarint(), int64(state.AtMost(1<<63 - 1))})
	case kind == 5:
		one := reservationBefore(of.ChangeOf, r, state.Uvarint())
		one.At = int64(state.AtMost(1<<63 - 1))
		one.Settled, one.Lapsed, one.Used = state.Bool(), state.Bool(), state.Uvarint()
		made = append(made, one)
	case kind == 7:
		made = append(made, &Ban{of.ChangeOf, int64(state.AtMost(1<<63 - 1))})
	case kind == 8:
		for state.Len() > 0 && !state.Failed() {
			made = append(made, &Permit{of.ChangeOf, holderBefore(state), max(0, state.Varint()+l.Ahead)}) // from 1970 on
		}
	default:
		r.Fail()
	}
	if !r.Done() {
		return nil, true, ErrStateContent
	}
	return made, true, doneBefore(state)
}

func doneBefore(r *wire.Reader) error {
	if !r.Done() {
		return ErrStateContent
	}
	return nil
}
