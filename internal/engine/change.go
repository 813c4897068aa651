package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/wire"
)

// ChangeKind is a kind of change, other than a request, to what a key has used of a limit.
type ChangeKind byte

const (
	NoChange            ChangeKind = iota
	ChangeRefund                   // KeyedLimit.Refund
	ChangeReset                    // KeyedLimit.Reset
	ChangeGrant                    // KeyedLimit.Grant
	ChangeReserve                  // NoteReserved
	ChangeSettle                   // KeyedLimit.Settle
	ChangeUnreserve                // KeyedLimit.Unreserve
	ChangeTakePermit               // admission.TakePermit
	ChangeRenewPermit              // admission.RenewPermit
	ChangeReleasePermit            // admission.ReleasePermit
	ChangeUse                      // KeyedLimit.Use, at once
	ChangeHold                     // a hold: see KeyedLimit.SetHold
	ChangeKinds                    // how many there are
)

// Change is one change to a key of a limit.
type Change struct {
	Kind ChangeKind
	At   time.Time // of Refund: taken; of Grant and Reserve: until

	ID      string        // of Reserve, Settle and Unreserve: the reservation's ID; else the change's own ID, by which it may be repeated
	Ago     time.Duration // of Reserve; of Hold: Held.Life
	Parts   uint64        // of Reserve: Reservation.Parts; of Hold: Held.Seq
	Content uint64        // of Reserve: Reservation.Content; of permits: the number of the holder; of Hold: Held.Need
	By      string        // of Reserve: Reservation.By
	Flag    bool          // of Reserve: what is not settled is given back; of Settle: more counts as debt
	Beside  uint64        // of Hold: what is granted of the limit in other ways. The node that decides fills it in
}

// Changed is what came of a Change.
type Changed struct {
	Was     bool   // Reset: there was something; Settle and Unreserve: it is known; of permits: it is held, or for ReleasePermit it was
	Again   bool   // Settle: it had been settled before; Reserve: another node asked for it before
	Freed   uint64 // by how many more are free for it; Hold: its share
	Used    uint64 // Settle: that count as used; of permits: how many are held; Hold: how much
	Over    uint64 // Settle: that were used beyond the reservation, and denied
	Verdict        // what the limit says then; of permits: RetryAfter alone, until the first is free
}

// OfPermit reports whether a change is about a permit. Then the limit is a Concurrency of package policy: max is its N, and ttl its Per.
func (k ChangeKind) OfPermit() bool { return k >= ChangeTakePermit && k <= ChangeReleasePermit }

// HasContent reports whether a change has Content.
func (k ChangeKind) HasContent() bool { return k == ChangeReserve || k == ChangeHold || k.OfPermit() }

// Make makes the change to a key, with the n of the method that it stands for; of Settle that is what was used.
func (c Change) Make(l *KeyedLimit, key string, n uint64) (made Changed, err error) {
	if c.Kind.OfPermit() {
		p, err := l.Permit(admission.PermitRequest(c.Kind-ChangeTakePermit), key, c.Content)
		return Changed{Was: p.OK, Used: uint64(p.Held), Verdict: Verdict{RetryAfter: p.Wait}}, err
	}
	switch c.Kind {
	case ChangeRefund:
		made.Freed, err = l.Refund(key, n, c.At)
	case ChangeReset:
		made.Was, err = l.Reset(key)
	case ChangeGrant:
		err = l.Grant(key, n, c.At)
	case ChangeReserve:
		made.Again, err = l.NoteReserved(key, n, Reservation{ID: c.ID, Until: c.At, GiveBack: c.Flag, Content: c.Content, Parts: c.Parts, By: c.By}, c.Ago, false)
	case ChangeUnreserve:
		made.Was, err = l.Unreserve(key, c.ID)
	case ChangeUse:
		l.Use(key, math.MaxInt64, n) // now
	case ChangeHold:
		made.Was = true
		made.Used, made.Freed, err = l.SetHold(key, admission.Held{ID: c.ID, Seq: c.Parts, Need: c.Content, Want: n, Life: c.Ago}, c.Beside)
	case ChangeSettle:
		var done admission.Settled
		done, err = l.Settle(key, c.ID, n, c.Flag)
		made = Changed{Was: done.Known, Again: done.Again, Freed: done.Freed, Used: done.Used, Over: done.Over}
	}
	if err == nil {
		made.Verdict, err = l.Peek(key, 0)
	}
	return made, err
}

// changesClient is the client that changes have among those that have receipts of an engine.
const changesClient = "changes"

// MakeOnce is Make, unless the engine knows that it made the change of this ID within ten minutes. Then MakeOnce
// returns the first result again.
//
// A Change without an ID is made in any case. Reservations and settlements are known by their own IDs, and permits by
// their holders. The error is api.CodeKeyReused for another change under the ID, and api.CodeOverloaded if no more IDs
// can be known.
func (c Change) MakeOnce(e *Engine, l *KeyedLimit, key string, n uint64) (made Changed, err error) {
	if c.ID == "" || c.Kind == ChangeSettle || c.Kind == ChangeUnreserve || c.Kind.HasContent() {
		return c.Make(l, key, n)
	}
	said, again, failure := e.OnceFrom(context.Background(), changesClient, "change "+c.ID, c.content(l, key, n), func() []byte {
		if made, err = c.Make(l, key, n); err != nil {
			return nil // nothing was changed
		}
		return wire.Append(nil, made.fields)
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
func (c Change) content(l *KeyedLimit, key string, n uint64) uint64 {
	at := int64(0)
	if !c.At.IsZero() {
		at = c.At.UnixNano()
	}
	b := binary.AppendVarint([]byte{byte(c.Kind)}, at)
	h := fnv.New64a()
	_, _ = h.Write(binary.AppendUvarint(wire.AppendText(wire.AppendText(b, l.Name()), key), n)) // a hash takes everything
	return h.Sum64()
}

// fields are the bytes of a receipt: Was, Freed, and of the verdict whether it allows, whether that is for ever, what remains, retry after
// and reset. Numbers are unsigned varints; times are in ns.
func (c *Changed) fields(w *wire.Codec) {
	w.Each(&c.Was, &c.Freed, &c.Allowed, &c.Never, &c.Remaining)
	wire.Number(w, &c.RetryAfter, math.MaxInt64)
	wire.Number(w, &c.Reset, math.MaxInt64)
}

func readChanged(b []byte) (c Changed, err error) {
	r := wire.NewReader(b)
	wire.Read(r, c.fields)
	if !r.Done() {
		return Changed{}, &Error{Code: api.CodeInvalidCount, Field: "id", Message: "the change was made before, but its result can't be read"}
	}
	return c, nil
}

// full says what it means for a change that no more receipts can be kept.
func full(failure error) error {
	if refused, ok := errors.AsType[*Error](failure); ok && refused.Code == api.CodeOnceFull {
		return &Error{Code: api.CodeOverloaded, Field: refused.Field,
			Message: "the key's owner remembers no more changes of the last ten minutes: this one was not made; try again later, or raise OnceMemory (weir serve --idempotency-memory)"}
	}
	return failure
}
