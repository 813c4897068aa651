package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/weir-counter/weir/api"
)

type (
	// Policies is the policies that were put by API.
	Policies = api.PoliciesAnswer
	// KeptPolicy is one of them.
	KeptPolicy = api.KeptPolicy
	// PutPolicy is a policy as it is after it was put.
	PutPolicy = api.PutAnswer
	// DeletedPolicy is a policy that is gone.
	DeletedPolicy = api.DeletedPolicy
)

// PolicyVersion is what must be so for a policy to be changed: a change for which it is not is refused with api.CodeVersionMismatch.
// The zero PolicyVersion is always so.
type PolicyVersion struct {
	Is  uint64 // the policy has this version; 0: any
	New bool   // none of its name was put
}

// PutPolicy puts a policy: text is its fields, in YAML or JSON, as an entry of a policy file has them. With a condition it is tried once,
// since an attempt whose answer was lost may have changed the version: look at the policy then.
func (c *Client) PutPolicy(ctx context.Context, name, text string, want PolicyVersion) (PutPolicy, error) {
	return changePolicy[PutPolicy](ctx, c, request{method: http.MethodPut, path: policyPath(name), body: []byte(text), contentType: "application/yaml"}, want)
}

// DeletePolicy deletes a policy that was put by API. It is tried as PutPolicy is.
func (c *Client) DeletePolicy(ctx context.Context, name string, want PolicyVersion) (DeletedPolicy, error) {
	return changePolicy[DeletedPolicy](ctx, c, request{method: http.MethodDelete, path: policyPath(name)}, want)
}

// Policy is a policy that was put by API, as the server that answers knows it.
func (c *Client) Policy(ctx context.Context, name string) (KeptPolicy, error) {
	return change[KeptPolicy](ctx, c, request{method: http.MethodGet, path: policyPath(name)})
}

// Policies lists the policies that were put by API.
func (c *Client) Policies(ctx context.Context) (Policies, error) {
	return change[Policies](ctx, c, request{method: http.MethodGet, path: "/v1/policies"})
}

func policyPath(name string) string { return "/v1/policies/" + segment(name) }

func changePolicy[T any](ctx context.Context, c *Client, r request, want PolicyVersion) (answer T, err error) {
	if want == (PolicyVersion{}) {
		return change[T](ctx, c, r)
	}
	if want.Is != 0 {
		r.ifMatch = strconv.Quote(strconv.FormatUint(want.Is, 10))
	}
	r.onlyNew = want.New
	text, err := c.attempt(ctx, c.nodes.from(c.nodes.first(), 0), r)
	if err == nil {
		err = decode(text, &answer)
	}
	return answer, err
}
