package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
)

// changesClient is the client that changes have among those that have receipts of an engine.
const changesClient = "changes"

// MakeOnce is Make, unless the engine knows that the change of this ID was made within ten minutes: then it says again
// what came of it. A Change without an ID is made in any case; what is reserved and settled is known by its own ID, and a permit by its holder, as
// long as they can be. The error is weir.CodeKeyReused for another change under the ID, and weir.CodeOverloaded where no
// more IDs can be known.
func (c Change) MakeOnce(e *weir.Engine, l *weir.KeyedLimit, key string, n uint64) (made Changed, err error) {
	if c.ID == "" || c.Kind == Settle || c.Kind.HasContent() {
		return c.Make(l, key, n)
	}
	said, again, failure := e.OnceFrom(context.Background(), changesClient, "change "+c.ID, c.content(l, key, n), func() []byte {
		if made, err = c.Make(l, key, n); err != nil {
			return nil // nothing was changed
		}
		return made.append(nil)
	})
	switch {
	case failure != nil:
		return Changed{}, full(failure)
	case again:
		return readChanged(said)
	}
	return made, err
}

// content tells changes of one ID apart. It is kept on disk.
func (c Change) content(l *weir.KeyedLimit, key string, n uint64) uint64 {
	at := int64(0)
	if !c.At.IsZero() {
		at = c.At.UnixNano()
	}
	b := binary.AppendVarint([]byte{byte(c.Kind)}, at)
	h := fnv.New64a()
	_, _ = h.Write(binary.AppendUvarint(wire.AppendText(wire.AppendText(b, l.Name()), key), n)) // a hash takes everything
	return h.Sum64()
}

// append appends the bytes of a receipt: 1 if there was something, how many were freed, 1 for allowed + 2 for never,
// what remains, retry after and reset in ns, as unsigned varints.
func (c Changed) append(b []byte) []byte {
	b = binary.AppendUvarint(wire.AppendBool(b, c.Was), c.Freed)
	b = wire.AppendBool(wire.AppendBool(b, c.After.Allowed), c.After.Never)
	for _, v := range []uint64{c.After.Remaining, uint64(c.After.RetryAfter), uint64(c.After.Reset)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func readChanged(b []byte) (c Changed, err error) {
	r := wire.NewReader(b)
	c.Was, c.Freed = r.Bool(), r.Uvarint()
	c.After = weir.Verdict{Allowed: r.Bool(), Never: r.Bool(), Remaining: r.Uvarint(), RetryAfter: time.Duration(r.Uvarint()), Reset: time.Duration(r.Uvarint())}
	if !r.Done() {
		return Changed{}, &weir.Error{Code: weir.CodeInvalidCount, Field: "id", Message: "the change was made before, but what came of it can't be read"}
	}
	return c, nil
}

// full says what it means for a change that no more receipts can be kept.
func full(failure error) error {
	if of, ok := errors.AsType[*weir.Error](failure); ok && of.Code == weir.CodeOnceFull {
		return &weir.Error{Code: weir.CodeOverloaded, Field: of.Field,
			Message: "the node that decides has made more changes in the last ten minutes than it can know again: this one was not made; try again later, or raise OnceMemory (weir serve --idempotency-memory)"}
	}
	return failure
}
