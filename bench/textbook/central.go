package textbook

import (
	"context"
	"net"
	"net/rpc"
)

// Central sends every hit to one server, over TCP on loopback, and waits for
// its answer. The server is exact, and is a single point of failure: while it is
// away nothing is counted.
//
// Cost: one round trip for each Hit and Count.
type Central struct {
	listener net.Listener
	client   *rpc.Client
}

// CentralServer is the server's side, with a Ring.
type CentralServer struct{ ring *Ring }

// Hit counts a hit.
func (s *CentralServer) Hit(at int64, _ *struct{}) error {
	s.ring.Hit(at)
	return nil
}

// Question is what Count asks.
type Question struct{ At, Seconds int64 }

// Count answers a question.
func (s *CentralServer) Count(q Question, sum *int64) error {
	*sum = s.ring.Count(q.At, q.Seconds)
	return nil
}

// NewCentral starts a server for windows of up to window seconds. Close stops it.
func NewCentral(window int64) (*Central, error) {
	server := rpc.NewServer()
	if err := server.Register(&CentralServer{NewRing(window)}); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go server.ServeConn(conn)
		}
	}()
	client, err := rpc.Dial("tcp", listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return &Central{listener, client}, nil
}

// Hit implements Counter.
func (c *Central) Hit(at int64) {
	if err := c.client.Call("CentralServer.Hit", at, &struct{}{}); err != nil {
		panic(err) // a lost connection: the texts do not say what to do
	}
}

// Count implements Counter.
func (c *Central) Count(at, seconds int64) (sum int64) {
	if err := c.client.Call("CentralServer.Count", Question{at, seconds}, &sum); err != nil {
		panic(err)
	}
	return sum
}

// Close stops the server.
func (c *Central) Close() error {
	_ = c.client.Close()
	return c.listener.Close()
}
