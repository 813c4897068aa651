package transport

import (
	"time"
	_ "unsafe" // for go:linkname: nats-server has no settings for these
)

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

//go:linkname lostQuorumInterval github.com/nats-io/nats-server/v2/server.lostQuorumInterval
var lostQuorumInterval time.Duration

//go:linkname lostQuorumCheck github.com/nats-io/nats-server/v2/server.lostQuorumCheck
var lostQuorumCheck time.Duration

// Embedded servers replace a lost leader within 1.5 to 3.5 s, because their heartbeats are four times as frequent as
// the default. nats-server's own 4 to 9 s are for clusters over slow links. Until a stream has a leader nothing
// becomes durable, and limits that one node decides are not decided. This runs before the first server of the process,
// because servers read the times without a lock.
func init() {
	minElectionTimeout, maxElectionTimeout = 1500*time.Millisecond, 3500*time.Millisecond
	hbInterval, lostQuorumInterval, lostQuorumCheck = 250*time.Millisecond, 5*time.Second, time.Second
}
