package journal

import (
	"time"

	"github.com/weir-counter/weir/journal/replica"
)

// Origins says of each origin how much of it is counted here, by name.
func (j *Journal) Origins() []replica.OriginStatus { return j.replica.Origins(time.Now()) }

// Freshness says until when the hits of all nodes are counted here, and which
// nodes are late: what these have counted since may be missing. This node is among them
// where its own flushes do not come back, so that nothing is known of nodes that it never
// heard of. Alone, a node has all hits, always.
func (j *Journal) Freshness() (asOf time.Time, late []replica.OriginStatus) {
	return j.replica.Freshness(time.Now())
}
