package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
)

// Limits returns the policies, with the decisions of a window; 0 is 5 minutes.
func (c *Client) Limits(ctx context.Context, window time.Duration) (api.LimitsAnswer, error) {
	return get[api.LimitsAnswer](ctx, c, "/v1/limits", values("window", length(window)), 0)
}

// LimitKeys returns the n keys that have used most of a policy; 0 is 20.
func (c *Client) LimitKeys(ctx context.Context, name string, n int) (api.LimitKeysAnswer, error) {
	return get[api.LimitKeysAnswer](ctx, c, "/v1/limits/"+segment(name)+"/keys", values("n", number(n)), 0)
}

// ForgetInline forgets what keys have used of the inline limits of a name (Check.Inline), or of all inline limits if name
// is "". It returns how many keys the server had of them, counted for each limit. Other nodes of a cluster forget a flush
// interval later.
func (c *Client) ForgetInline(ctx context.Context, name string) (forgotten int, err error) {
	r := request{method: http.MethodDelete, path: "/v1/limits/inline", query: values("name", name)}
	answer, err := call[api.ForgetAnswer](ctx, c, r)
	return answer.Forgotten, err
}

// ResetLimit forgets what a key, as it is counted, has used of a limit, and takes its grant back. It may be repeated.
func (c *Client) ResetLimit(ctx context.Context, limit, key string) (api.ResetAnswer, error) {
	return call[api.ResetAnswer](ctx, c, request{method: http.MethodDelete, path: "/v1/limits/" + segment(limit) + "/keys/" + segment(key)})
}

// Grant gives a key, as it is counted, n admissions in addition to a limit until a time. It replaces an earlier grant, so it
// may be repeated. n of 0 takes back what is left; until is then not used.
func (c *Client) Grant(ctx context.Context, limit, key string, n uint64, until time.Time) (api.GrantAnswer, error) {
	v := url.Values{"limit": {limit}, "key": {key}, "n": {strconv.FormatUint(n, 10)}}
	if n > 0 && !until.IsZero() {
		v.Set("until", moment(until))
	}
	return call[api.GrantAnswer](ctx, c, request{method: http.MethodPost, path: "/v1/grants", query: v})
}

// Ban denies a key, as it is counted, under a policy for so long, whatever it has used. It replaces an earlier ban, so it
// may be repeated.
func (c *Client) Ban(ctx context.Context, limit, key string, length time.Duration) (api.BanAnswer, error) {
	v := url.Values{"limit": {limit}, "key": {key}, "for": {length.String()}}
	return call[api.BanAnswer](ctx, c, request{method: http.MethodPost, path: "/v1/bans", query: v})
}

// Unban lifts the ban of a key. It may be repeated.
func (c *Client) Unban(ctx context.Context, limit, key string) (api.UnbanAnswer, error) {
	return call[api.UnbanAnswer](ctx, c, request{method: http.MethodDelete, path: "/v1/bans", query: url.Values{"limit": {limit}, "key": {key}}})
}

// Bans lists the keys that are banned, as the node that is asked knows them: at most n, 1 to 1000, the bans that end last first.
func (c *Client) Bans(ctx context.Context, n int) (api.BansAnswer, error) {
	return get[api.BansAnswer](ctx, c, "/v1/bans", url.Values{"n": {strconv.Itoa(n)}}, 0)
}

// Refund gives back what Allow took for checks at the time taken, or, with the zero time, the newest admissions. It makes one
// attempt, because a second one would give back twice.
func (c *Client) Refund(ctx context.Context, taken time.Time, checks ...Check) (api.RefundAnswer, error) {
	return post[api.RefundAnswer](ctx, c, request{path: "/v1/refund", query: values("taken", moment(taken)), once: true}, asAllow(checks, false))
}

// Reservation says for how long admissions are reserved, and what becomes of them then.
type Reservation struct {
	TTL      time.Duration // time to settle them; 0: a minute
	GiveBack bool          // if not settled by then, they are given back; else they stay used
}

// Reserve takes what a request may need, as Allow does; Settle reports how much it did need. The client makes the ID, so it
// may try again when an answer is lost. A denial is no error.
func (c *Client) Reserve(ctx context.Context, r Reservation, checks ...Check) (answer api.ReserveAnswer, err error) {
	v := values("id", rand.Text())
	if r.TTL != 0 {
		v.Set("ttl", r.TTL.String())
	}
	if r.GiveBack {
		v.Set("unsettled", "returned")
	}
	asked, err := request{path: "/v1/reserve", query: v}.withJSON(asAllow(checks, false))
	if err != nil {
		return answer, err
	}
	at := c.nodes.first() // for all attempts: other nodes do not know the ID yet
	var text []byte
	var refused *Error
	for range 1 + max(0, c.opts.Retries) {
		text, err = c.attempt(ctx, at, asked)
		if refused = nil; err == nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError || ctx.Err() != nil {
			break
		}
	}
	if denied := refused != nil && refused.Status == http.StatusTooManyRequests && refused.Code == ""; err == nil || denied {
		err = decode(text, &answer)
	}
	return answer, err
}

// Settle reports how many admissions of each limit of a reservation were used: the rest is given back. With debt, usage beyond
// the reservation counts whatever the limits say; else only if they allow it. It may be repeated.
func (c *Client) Settle(ctx context.Context, id string, used uint64, debt bool) (api.SettleAnswer, error) {
	return c.settle(ctx, api.SettleRequest{ID: id, Used: api.Used{N: used}}, debt)
}

// SettleCosts is Settle for a reservation of limits with different costs: used has one number for each cost, and "requests" is
// for limits without one.
func (c *Client) SettleCosts(ctx context.Context, id string, used map[string]uint64, debt bool) (api.SettleAnswer, error) {
	return c.settle(ctx, api.SettleRequest{ID: id, Used: api.Used{Costs: used}}, debt)
}

func (c *Client) settle(ctx context.Context, r api.SettleRequest, debt bool) (api.SettleAnswer, error) {
	if debt {
		r.Over = "debt"
	}
	return post[api.SettleAnswer](ctx, c, request{path: "/v1/settle"}, r)
}

// PolicyVersion is a condition for changing a policy. If it does not hold, the error is an *Error of
// api.CodeVersionMismatch. The zero PolicyVersion always holds.
type PolicyVersion struct {
	Is  uint64 // the policy has this version; 0: any
	New bool   // no policy of its name was put
}

// PutPolicy puts a policy: text is its fields, in YAML or JSON, as an entry of a policy file has them. With a condition it
// makes one attempt. If that gets no answer, the policy may have changed or not: call Policy.
func (c *Client) PutPolicy(ctx context.Context, name, text string, want PolicyVersion) (api.PutAnswer, error) {
	return call[api.PutAnswer](ctx, c, changePolicy(request{method: http.MethodPut, path: policyPath(name), body: []byte(text), contentType: "application/yaml"}, want))
}

// DeletePolicy deletes a policy that was put by API. It makes as many attempts as PutPolicy.
func (c *Client) DeletePolicy(ctx context.Context, name string, want PolicyVersion) (api.DeletedPolicy, error) {
	return call[api.DeletedPolicy](ctx, c, changePolicy(request{method: http.MethodDelete, path: policyPath(name)}, want))
}

// Policy returns a policy that was put by API, as the server that answers knows it.
func (c *Client) Policy(ctx context.Context, name string) (api.KeptPolicy, error) {
	return get[api.KeptPolicy](ctx, c, policyPath(name), nil, 0)
}

// Policies lists the policies that were put by API.
func (c *Client) Policies(ctx context.Context) (api.PoliciesAnswer, error) {
	return get[api.PoliciesAnswer](ctx, c, "/v1/policies", nil, 0)
}

func policyPath(name string) string { return "/v1/policies/" + segment(name) }

// changePolicy adds a condition to a request.
func changePolicy(r request, want PolicyVersion) request {
	if want.Is != 0 {
		r.ifMatch = strconv.Quote(strconv.FormatUint(want.Is, 10))
	}
	r.onlyNew, r.once = want.New, want != (PolicyVersion{})
	return r
}

// Why returns why a request was denied, by the Denial of a decision. It asks one node after the other, until the one that keeps
// the denial answers. Once newer denials have replaced it, the error is an *Error with api.CodeDenialGone.
func (c *Client) Why(ctx context.Context, id string) (why api.DenialAnswer, err error) {
	first := c.nodes.first()
	for i := range c.nodes.count() {
		var text []byte
		text, err = c.attempt(ctx, c.nodes.after(first, i), request{method: http.MethodGet, path: "/v1/denials/" + segment(id)})
		if err == nil {
			return why, decode(text, &why)
		}
		var refused *Error
		if ctx.Err() != nil || errors.As(err, &refused) && refused.Code != api.CodeOtherNode && refused.Status < http.StatusInternalServerError {
			break
		}
	}
	return why, err
}

// WhoQuery asks for the keys that limits deny.
type WhoQuery struct {
	Window time.Duration // in which the keys were denied, at most 5 minutes; 0: one minute
	Prefix string        // only counted keys that begin with it
	Limit  string        // only of this limit; "": all, also inline limits
	Most   int           // how many keys to list; 0: 20
}

// Who returns the keys that one server denied, most denied first.
func (c *Client) Who(ctx context.Context, q WhoQuery) (api.WhoAnswer, error) {
	return get[api.WhoAnswer](ctx, c, "/v1/limits/who", q.values(), 0)
}

// WhoOfAll is Who for all nodes of the client, because each knows only its own denials: it sums them up by key. The
// errors of nodes that did not answer are in missing; err is set if none did.
func (c *Client) WhoOfAll(ctx context.Context, q WhoQuery) (who api.WhoAnswer, missing []error, err error) {
	byKey := map[[2]string]int{}
	for at := range c.nodes.count() {
		var one api.WhoAnswer
		text, err := c.attempt(ctx, at, request{method: http.MethodGet, path: "/v1/limits/who", query: q.values()})
		if err == nil {
			err = decode(text, &one)
		}
		if err != nil {
			missing = append(missing, err)
			continue
		}
		if len(missing) == at { // the first one that answers
			who = api.WhoAnswer{At: one.At, WindowSeconds: one.WindowSeconds, Prefix: one.Prefix, Node: one.Node}
		} else {
			who.Node = ""
		}
		who.Forgotten += one.Forgotten
		for _, k := range one.Keys {
			i, known := byKey[[2]string{k.Limit, k.Key}]
			if !known {
				byKey[[2]string{k.Limit, k.Key}] = len(who.Keys)
				who.Keys = append(who.Keys, k)
				continue
			}
			sum := &who.Keys[i]
			sum.Denied += k.Denied
			if k.Since.Before(sum.Since.Time) {
				sum.Since = k.Since
			}
			if k.Last.After(sum.Last.Time) { // this node knows best when the key may pass
				sum.Last, sum.RetryAfterSeconds = k.Last, k.RetryAfterSeconds
			}
		}
	}
	if len(missing) == c.nodes.count() {
		return who, nil, errors.Join(missing...)
	}
	slices.SortStableFunc(who.Keys, func(a, b api.LimitedKey) int { return cmp.Compare(b.Denied, a.Denied) })
	who.Keys = who.Keys[:min(cmp.Or(q.Most, 20), len(who.Keys))]
	return who, missing, nil
}

func (q WhoQuery) values() url.Values {
	return values("window", length(q.Window), "prefix", q.Prefix, "limit", q.Limit, "n", number(q.Most))
}
