package query

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/partial"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// keys is a kind: n keys with a prefix, after another in their order.
type keys struct {
	n             int
	prefix, after string
}

// names is its result, sorted.
type names []string

// Keys answers as weir.Engine.Keys does, for the keys of all nodes.
func (r Reading) Keys(ctx context.Context, prefix, after string, limit int) ([]string, Fresh, error) {
	a, fresh, err := r.ask(ctx, &question{kind: keys{limit, clip(prefix, maxFilter), clip(after, maxFilter)}, upTo: r.upTo})
	if err != nil {
		return nil, Fresh{}, err
	}
	return slices.Clone(a.result.(names)), fresh, nil
}

// Keys is that of a Reading after anything.
func (r *Router) Keys(ctx context.Context, prefix, after string, limit int) ([]string, Fresh, error) {
	return r.After(0).Keys(ctx, prefix, after, limit)
}

func (keys) number() byte  { return 4 }
func (keys) class() class  { return scan }
func (keys) keyed() string { return "" }
func (keys) wide() bool    { return true }
func (keys) counts() bool  { return true }
func (keys) exact() bool   { return true }

// keys: n, prefix, after.
func (q keys) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(q.n))
	b = wire.AppendText(b, q.prefix)
	return wire.AppendText(b, q.after)
}

func readKeys(r *wire.Reader) kind {
	return keys{int(r.AtMost(weir.MaxList)), r.Text(maxFilter), r.Text(maxFilter)}
}

func (q keys) answer(e *weir.Engine, in replication.PartitionSet) (result, error) {
	list, err := partial.Of(e).KeysIn(in, q.prefix, q.after, q.n)
	return names(list), err
}

func (q keys) read(r *wire.Reader) result {
	list := make(names, readLength(r, q.n))
	for i := range list {
		list[i] = r.Text(weir.MaxKeyBytes)
	}
	return list
}

// How many, keys.
func (l names) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for _, key := range l {
		b = wire.AppendText(b, key)
	}
	return b
}

func (l names) merge(q kind, more result) result {
	l = append(l, more.(names)...)
	slices.Sort(l)
	return l[:min(q.(keys).n, len(l))]
}

func (l names) memory() (n int) {
	for _, key := range l {
		n += 16 + len(key)
	}
	return n
}
