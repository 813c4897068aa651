package client

import (
	"context"
	"net/http"
)

// RemoveNode removes a node that never comes back: quorums are counted without it, and
// no answer waits for it. One that is alive is an *Error of code node_here, one that
// nobody knows of unknown_node. It may take 20 s.
func (c *Client) RemoveNode(ctx context.Context, node string) (removed RemovedNode, err error) {
	body, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/cluster/nodes/" + segment(node)})
	if err != nil {
		return removed, err
	}
	return removed, decode(body, &removed)
}

// Cluster asks for the nodes that count together.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return ask[Cluster](ctx, c, "/v1/cluster", nil)
}
