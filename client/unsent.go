package client

import (
	"errors"
	"net"
)

// neverSent tells whether err of a request came before any of it left: no connection
// could be made.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
