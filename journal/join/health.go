package join

import (
	"errors"
	"fmt"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Health is nil, or what the embedded server itself says is wrong: after an error
// of writing it keeps that error, and answers no publisher any more.
func (n *Node) Health() error {
	if n.server == nil {
		return nil
	}
	if !n.server.Running() {
		return errors.New("embedded server: it does not run")
	}
	for _, wrong := range n.server.Healthz(&natsserver.HealthzOptions{Details: true}).Errors {
		if wrong.Type != natsserver.HealthzErrorConn { // it has one when this machine is slow for a millisecond
			return fmt.Errorf("embedded server: %s", wrong.Error)
		}
	}
	return nil
}
