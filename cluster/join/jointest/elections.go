package jointest

import (
	"os"
	"time"
	_ "unsafe" // for go:linkname: nats-server has no settings for these
)

// ElectionsEnv is the environment variable that, set to anything, leaves the embedded
// servers of tests the times of elections that they have in production: a lost leader is
// missed for 4 to 9 s. The long tests run so (make soak). Without it the servers have the
// times that nats-server's own tests give them, so that a test that kills a node, or starts
// all again, waits for 2 s and not for 6.
const ElectionsEnv = "JOINTEST_ELECTIONS"

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

//go:linkname routeConnectDelay github.com/nats-io/nats-server/v2/server.routeConnectDelay
var routeConnectDelay time.Duration

//go:linkname routeReconnectDelay github.com/nats-io/nats-server/v2/server.routeReconnectDelay
var routeReconnectDelay time.Duration

// Elections are quicker than in production, from the start: servers read the times without a
// lock. Heartbeats are not as frequent as in nats-server's tests, where they cost more than all
// else.
func init() {
	if os.Getenv(ElectionsEnv) != "" {
		return
	}
	minElectionTimeout, maxElectionTimeout = 1500*time.Millisecond, 3500*time.Millisecond
	hbInterval, lostQuorumInterval, lostQuorumCheck = 250*time.Millisecond, 5*time.Second, time.Second
	routeConnectDelay, routeReconnectDelay = 100*time.Millisecond, 100*time.Millisecond
}
