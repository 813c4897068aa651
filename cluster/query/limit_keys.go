package query

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/partial"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

// limitKeys is a kind: n keys of a shared limit, those with most in use.
type limitKeys struct {
	record string // of the limit (internal/limits)
	n      int
}

// uses is its result, in the order of weir.KeyUse.Compare.
type uses []weir.KeyUse

// LimitKeys answers as weir.KeyedLimit.Keys does, for the keys of all nodes: of a shared
// limit.
func (r *Router) LimitKeys(ctx context.Context, l *weir.KeyedLimit, most int) ([]weir.KeyUse, error) {
	a, _, err := r.ask(ctx, &question{kind: limitKeys{limits.Record(l), most}})
	if err != nil {
		return nil, err
	}
	return slices.Clone(a.result.(uses)), nil
}

func (limitKeys) number() byte  { return 6 }
func (limitKeys) class() class  { return scan }
func (limitKeys) keyed() string { return "" }
func (limitKeys) wide() bool    { return true }
func (limitKeys) counts() bool  { return false }
func (limitKeys) exact() bool   { return true }

// keys of a limit: record, n.
func (q limitKeys) append(b []byte) []byte {
	return binary.AppendUvarint(wire.AppendText(b, q.record), uint64(q.n))
}

func readLimitKeys(r *wire.Reader) kind {
	return limitKeys{r.Text(r.Len()), int(r.AtMost(weir.MaxList))}
}

func (q limitKeys) answer(e *weir.Engine, in replication.PartitionSet) (result, error) {
	of, err := limits.Of(e).LimitOfRecord(q.record)
	if err != nil {
		return nil, err
	}
	list, err := partial.Of(e).LimitKeysIn(in, of, q.n)
	return uses(list), err
}

func (q limitKeys) read(r *wire.Reader) result {
	list := make(uses, readLength(r, q.n))
	for i := range list {
		list[i] = readUse(r)
	}
	return list
}

// How many, each key, algorithm, n, per in ns, burst, used, remaining, reset in ns.
func (l uses) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for _, u := range l {
		b = wire.AppendText(b, u.Key)
		for _, v := range []uint64{uint64(u.Limit.Algorithm), u.Limit.N, uint64(u.Limit.Per), u.Limit.Burst, u.Used, u.Remaining, uint64(u.Reset)} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

func readUse(r *wire.Reader) (u weir.KeyUse) {
	u.Key = r.Text(weir.MaxKeyBytes)
	u.Limit.Algorithm = limit.Algorithm(r.AtMost(math.MaxUint8))
	u.Limit.N = r.Uvarint()
	u.Limit.Per = time.Duration(r.AtMost(math.MaxInt64))
	if u.Limit.Burst = r.Uvarint(); u.Limit.Burst == 0 { // of which Share is a part
		r.Fail()
	}
	u.Used, u.Remaining = r.Uvarint(), r.Uvarint()
	u.Reset = time.Duration(r.AtMost(math.MaxInt64))
	return u
}

func (l uses) merge(q kind, more result) result {
	l = append(l, more.(uses)...)
	slices.SortFunc(l, weir.KeyUse.Compare)
	return l[:min(q.(limitKeys).n, len(l))]
}

func (l uses) memory() (n int) {
	for _, u := range l {
		n += 80 + len(u.Key)
	}
	return n
}
