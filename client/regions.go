package client

import (
	"context"
	"net/http"
)

// Scope says whose hits an answer has.
type Scope string

// The scopes. The zero Scope is ScopeGlobal of a server that counts for a region, else ScopeRegion.
const (
	ScopeNode   Scope = "node"   // those that the node holds which is asked
	ScopeRegion Scope = "region" // those of its region: a server, or a cluster
	ScopeGlobal Scope = "global" // those of all regions
)

// Regions asks for the regions that count together.
func (c *Client) Regions(ctx context.Context) (Regions, error) {
	return ask[Regions](ctx, c, "/v1/regions", nil)
}

// ForgetRegion drops all hits of a region that never comes back, in all regions. One that nobody knows of is an *Error of
// code unknown_region.
func (c *Client) ForgetRegion(ctx context.Context, region string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/v1/regions/" + segment(region)})
	return err
}
