package join

import (
	"fmt"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Health is nil, or what the embedded server itself says is wrong: after an error
// of writing it keeps that error, and answers no publisher any more.
func (n *Node) Health() error {
	if n.server == nil {
		return nil
	}
	if h := n.server.Healthz(&natsserver.HealthzOptions{}); h.Error != "" {
		return fmt.Errorf("embedded server: %s", h.Error)
	}
	return nil
}
