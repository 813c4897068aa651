package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
)

// Limits asks for the policies, with the decisions of a window; 0 is 5 minutes.
func (c *Client) Limits(ctx context.Context, window time.Duration) (api.LimitsAnswer, error) {
	v := url.Values{}
	if window != 0 {
		v.Set("window", seconds(window))
	}
	return ask[api.LimitsAnswer](ctx, c, "/v1/limits", v)
}

// LimitKeys asks for the keys that have used most of a policy, at most most of them; 0
// is 20.
func (c *Client) LimitKeys(ctx context.Context, name string, most int) (api.LimitKeysAnswer, error) {
	v := url.Values{}
	if most != 0 {
		v.Set("n", strconv.Itoa(most))
	}
	return ask[api.LimitKeysAnswer](ctx, c, "/v1/limits/"+segment(name)+"/keys", v)
}

// segment writes a key or a name as one segment of a path.
func segment(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E") // or it would be a step in the path
	}
	return url.PathEscape(name)
}

// ForgetInline forgets what keys have used of the limits of a name that requests brought
// along (Check.Inline), or with "" of all such. It returns how many keys the server had
// of them, counted for each limit. Other nodes of a cluster forget a flush interval later.
func (c *Client) ForgetInline(ctx context.Context, name string) (forgotten int, err error) {
	r := request{method: http.MethodDelete, path: "/v1/limits/inline"}
	if name != "" {
		r.query = url.Values{"name": {name}}
	}
	text, err := c.do(ctx, r)
	if err != nil {
		return 0, err
	}
	var answer api.ForgetAnswer
	err = decode(text, &answer)
	return answer.Forgotten, err
}

// ResetLimit forgets what a key, as it is counted, has used of a limit, and takes its grant back. It may be sent again.
func (c *Client) ResetLimit(ctx context.Context, limit, key string) (api.ResetAnswer, error) {
	return change[api.ResetAnswer](ctx, c, request{method: http.MethodDelete, path: "/v1/limits/" + segment(limit) + "/keys/" + segment(key)})
}

// Grant gives a key, as it is counted, n admissions beside a limit until a time, in place of an earlier grant: it may be
// sent again. n of 0 takes what is left back; until is then not used.
func (c *Client) Grant(ctx context.Context, limit, key string, n uint64, until time.Time) (api.GrantAnswer, error) {
	v := url.Values{"limit": {limit}, "key": {key}, "n": {strconv.FormatUint(n, 10)}}
	if n > 0 {
		setTime(v, "until", until)
	}
	return change[api.GrantAnswer](ctx, c, request{method: http.MethodPost, path: "/v1/grants", query: v})
}

// Ban has a key, as it is counted, denied under a policy for so long, whatever it has used, in place of an earlier ban: it may be sent
// again.
func (c *Client) Ban(ctx context.Context, limit, key string, length time.Duration) (api.BanAnswer, error) {
	v := url.Values{"limit": {limit}, "key": {key}, "for": {length.String()}}
	return change[api.BanAnswer](ctx, c, request{method: http.MethodPost, path: "/v1/bans", query: v})
}

// Unban lifts the ban of a key. It may be sent again.
func (c *Client) Unban(ctx context.Context, limit, key string) (api.UnbanAnswer, error) {
	return change[api.UnbanAnswer](ctx, c, request{method: http.MethodDelete, path: "/v1/bans", query: url.Values{"limit": {limit}, "key": {key}}})
}

// Refund gives back what Allow took for checks, all at one time: with the zero time the newest admissions. It is tried
// once: sent again it would give back twice.
func (c *Client) Refund(ctx context.Context, taken time.Time, checks ...Check) (answer api.RefundAnswer, err error) {
	body, err := json.Marshal(asAllow(checks, false))
	if err != nil {
		return answer, err
	}
	v := url.Values{}
	setTime(v, "taken", taken)
	text, err := c.attempt(ctx, c.nodes.from(c.nodes.first(), 0), request{method: http.MethodPost, path: "/v1/refund", query: v, body: body, contentType: "application/json"})
	if err == nil {
		err = decode(text, &answer)
	}
	return answer, err
}

// change sends what may be sent again.
func change[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	text, err := c.do(ctx, r)
	if err == nil {
		err = decode(text, &answer)
	}
	return answer, err
}

// Reservation is how admissions are reserved.
type Reservation struct {
	TTL      time.Duration // within which it is settled; 0: a minute
	GiveBack bool          // what is not settled is given back; else it stays used
}

// Bans lists the keys that are banned, as the node that is asked knows them: at most n, 1 to 1000, those whose ban ends last first.
func (c *Client) Bans(ctx context.Context, n int) (api.BansAnswer, error) {
	return ask[api.BansAnswer](ctx, c, "/v1/bans", url.Values{"n": {strconv.Itoa(n)}})
}

// Reserve takes what a request may need, as Allow does; Settle says how much it did need. The client makes the ID, and so may
// try again when an answer is lost. A denial is no error.
func (c *Client) Reserve(ctx context.Context, r Reservation, checks ...Check) (answer api.ReserveAnswer, err error) {
	body, err := json.Marshal(asAllow(checks, false))
	if err != nil {
		return answer, err
	}
	v := url.Values{"id": {rand.Text()}}
	if r.TTL != 0 {
		v.Set("ttl", r.TTL.String())
	}
	if r.GiveBack {
		v.Set("unsettled", "returned")
	}
	at := c.nodes.from(c.nodes.first(), 0) // again at the same node, if at all: others do not know the ID yet
	var text []byte
	var refused *Error
	for range 1 + max(0, c.opts.Retries) {
		text, err = c.attempt(ctx, at, request{method: http.MethodPost, path: "/v1/reserve", query: v, body: body, contentType: "application/json"})
		if refused = nil; err == nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError || ctx.Err() != nil {
			break
		}
	}
	if denied := refused != nil && refused.Status == http.StatusTooManyRequests && refused.Code == ""; err == nil || denied {
		err = decode(text, &answer)
	}
	return answer, err
}

// Settle says how many of each limit of a reservation were used: the rest is given back. With debt what was used beyond it counts,
// whatever the limits say; else only if they have room for it. It may be sent again.
func (c *Client) Settle(ctx context.Context, id string, used uint64, debt bool) (api.SettleAnswer, error) {
	return c.settle(ctx, api.SettleRequest{ID: id, Used: api.Used{N: used}}, debt)
}

// SettleCosts is Settle for a reservation of limits with different costs: used has one number for each cost, and "requests" is
// for limits without one.
func (c *Client) SettleCosts(ctx context.Context, id string, used map[string]uint64, debt bool) (api.SettleAnswer, error) {
	return c.settle(ctx, api.SettleRequest{ID: id, Used: api.Used{Costs: used}}, debt)
}

func (c *Client) settle(ctx context.Context, r api.SettleRequest, debt bool) (answer api.SettleAnswer, err error) {
	if debt {
		r.Over = "debt"
	}
	body, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	return change[api.SettleAnswer](ctx, c, request{method: http.MethodPost, path: "/v1/settle", body: body, contentType: "application/json"})
}

// PolicyVersion is what must be so for a policy to be changed: a change for which it is not is refused with api.CodeVersionMismatch.
// The zero PolicyVersion is always so.
type PolicyVersion struct {
	Is  uint64 // the policy has this version; 0: any
	New bool   // none of its name was put
}

// PutPolicy puts a policy: text is its fields, in YAML or JSON, as an entry of a policy file has them. With a condition it is tried once,
// since an attempt whose answer was lost may have changed the version: look at the policy then.
func (c *Client) PutPolicy(ctx context.Context, name, text string, want PolicyVersion) (api.PutAnswer, error) {
	return changePolicy[api.PutAnswer](ctx, c, request{method: http.MethodPut, path: policyPath(name), body: []byte(text), contentType: "application/yaml"}, want)
}

// DeletePolicy deletes a policy that was put by API. It is tried as PutPolicy is.
func (c *Client) DeletePolicy(ctx context.Context, name string, want PolicyVersion) (api.DeletedPolicy, error) {
	return changePolicy[api.DeletedPolicy](ctx, c, request{method: http.MethodDelete, path: policyPath(name)}, want)
}

// Policy is a policy that was put by API, as the server that answers knows it.
func (c *Client) Policy(ctx context.Context, name string) (api.KeptPolicy, error) {
	return change[api.KeptPolicy](ctx, c, request{method: http.MethodGet, path: policyPath(name)})
}

// Policies lists the policies that were put by API.
func (c *Client) Policies(ctx context.Context) (api.PoliciesAnswer, error) {
	return change[api.PoliciesAnswer](ctx, c, request{method: http.MethodGet, path: "/v1/policies"})
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
