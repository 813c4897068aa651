package query

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// top is a kind: the n keys with a prefix that have most hits in a window.
type top struct {
	at     time.Time // whole seconds
	window time.Duration
	n      int
	prefix string
}

// ranking is its result: the most first, of equal ones by key.
type ranking []engine.KeyCount

// Top answers as engine.Engine.Top does, for the keys of all nodes.
func (r *Router) Top(ctx context.Context, upTo uint64, at time.Time, w time.Duration, n int, prefix string) ([]engine.KeyCount, api.Freshness, error) {
	a, fresh, err := r.ask(ctx, &question{kind: top{time.Unix(at.Unix(), 0), w, n, clip(prefix, maxFilter)}, upTo: upTo})
	if err != nil {
		return nil, api.Freshness{}, err
	}
	return slices.Clone(a.result.(ranking)), fresh, nil
}

func (top) number() byte  { return 3 }
func (top) class() class  { return scan }
func (top) keyed() string { return "" }
func (top) wide() bool    { return true }
func (top) counts() bool  { return true }
func (q top) exact() bool { return whole(q.window) }

// top: at (signed s), window s, n, prefix.
func (q top) append(b []byte) []byte {
	b = binary.AppendVarint(b, q.at.Unix())
	b = binary.AppendUvarint(b, seconds(q.window))
	b = binary.AppendUvarint(b, uint64(q.n))
	return wire.AppendText(b, q.prefix)
}

func readTop(r *wire.Reader) kind {
	return top{at: time.Unix(r.Varint(), 0), window: readWindow(r), n: int(r.AtMost(engine.MaxList)), prefix: r.Text(maxFilter)}
}

func (q top) answer(e *engine.Engine, in replication.PartitionSet) (result, error) {
	list, err := e.TopIn(in, q.at, q.window, q.n, q.prefix)
	return ranking(list), err
}

func (q top) read(r *wire.Reader) result {
	list := make(ranking, readLength(r, q.n))
	for i := range list {
		list[i] = engine.KeyCount{Key: r.Text(engine.MaxKeyBytes), Count: engine.Count(readBounds(r))}
	}
	return list
}

// How many, each key and count.
func (l ranking) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for _, kc := range l {
		b = counting(kc.Count).append(wire.AppendText(b, kc.Key))
	}
	return b
}

func (l ranking) merge(q kind, more result) result {
	l = append(l, more.(ranking)...)
	slices.SortFunc(l, func(a, b engine.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
	})
	return l[:min(q.(top).n, len(l))]
}

func (l ranking) memory() (n int) {
	for _, kc := range l {
		n += 40 + len(kc.Key)
	}
	return n
}

// readLength reads the length of a list.
func readLength(r *wire.Reader, most int) int {
	n := r.Count()
	if n > most {
		r.Fail()
		return 0
	}
	return n
}

// keys is a kind: n keys with a prefix, after another in their order.
type keys struct {
	n             int
	prefix, after string
}

// names is its result, sorted.
type names []string

// Keys answers as engine.Engine.Keys does, for the keys of all nodes.
func (r *Router) Keys(ctx context.Context, upTo uint64, prefix, after string, limit int) ([]string, api.Freshness, error) {
	a, fresh, err := r.ask(ctx, &question{kind: keys{limit, clip(prefix, maxFilter), clip(after, maxFilter)}, upTo: upTo})
	if err != nil {
		return nil, api.Freshness{}, err
	}
	return slices.Clone(a.result.(names)), fresh, nil
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
	return keys{int(r.AtMost(engine.MaxList)), r.Text(maxFilter), r.Text(maxFilter)}
}

func (q keys) answer(e *engine.Engine, in replication.PartitionSet) (result, error) {
	list, err := e.KeysIn(in, q.prefix, q.after, q.n)
	return names(list), err
}

func (q keys) read(r *wire.Reader) result {
	list := make(names, readLength(r, q.n))
	for i := range list {
		list[i] = r.Text(engine.MaxKeyBytes)
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
