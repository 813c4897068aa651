package join

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// door decides which nodes may connect to the cluster port: those that know the
// secret, and of each name one. Two nodes of one name would be one voter that
// votes twice; the server itself only notices when the two meet each other.
//
// A node says its name as the user name of its routes. One that comes back after
// its machine lost power waits until its old route is found dead, some 15 s.
type door struct {
	secret string
	log    *slog.Logger
	server atomic.Pointer[natsserver.Server]
	said   atomic.Int64 // when a refusal was last logged, Unix time in nanoseconds
}

// sayEvery bounds how often refusals are logged: a refused node tries again
// every second.
const sayEvery = 10 * time.Second

// Check implements natsserver.Authentication.
func (d *door) Check(c natsserver.ClientAuthentication) bool {
	node := c.GetOpts()
	given, want := sha256.Sum256([]byte(node.Password)), sha256.Sum256([]byte(d.secret))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		d.say("refused a node: it has another secret: all need the same --cluster-secret-file", c)
		return false
	}
	server := d.server.Load()
	routes, err := server.Routez(nil)
	if err != nil {
		return false // the server is shutting down
	}
	taken := node.Username == server.Name() && node.Name != server.ID() // itself, through its outer address, is let in and ends it
	for _, route := range routes.Routes {
		taken = taken || route.RemoteName == node.Username && route.RemoteID != node.Name
	}
	if taken {
		d.say("refused a node: its name is taken by another: give each node its own --node", c)
	}
	return !taken
}

func (d *door) say(what string, c natsserver.ClientAuthentication) {
	last, now := d.said.Load(), time.Now().UnixNano()
	if now-last < int64(sayEvery) || !d.said.CompareAndSwap(last, now) {
		return
	}
	d.log.Error(what, "node", c.GetOpts().Username, "from", c.RemoteAddress())
}

// inProcess lets in clients of this process only: they come by a pipe. One that
// gives the name of the system account becomes part of it.
type inProcess struct {
	server atomic.Pointer[natsserver.Server]
}

const systemUser = "$SYS"

// Check implements natsserver.Authentication.
func (p *inProcess) Check(c natsserver.ClientAuthentication) bool {
	addr := c.RemoteAddress()
	if addr == nil || addr.Network() != "pipe" {
		return false
	}
	if c.GetOpts().Username == systemUser {
		c.RegisterUser(&natsserver.User{Username: systemUser, Account: p.server.Load().SystemAccount()})
	}
	return true
}
