package record

import (
	"fmt"
	"math/rand/v2"
)

// A journal has an identity of its own, a random number that is in the metadata of its
// streams and in the manifest of each node: so that nobody takes another's journal for
// its own, as after a mix-up of directories, of --peers or of a NATS.

// NewJournalID is never 0, which means: not known.
func NewJournalID() uint64 { return rand.Uint64()>>1 + 1 }

// JournalText is an identity as everybody writes it: 16 hexadecimal digits.
func JournalText(id uint64) string { return fmt.Sprintf("%016x", id) }
