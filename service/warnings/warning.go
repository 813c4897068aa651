package warnings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy/admit"
)

// Pause is the shortest window: a limit per second would call each second.
const Pause = time.Minute

// counted is the key that a limit counts.
type counted struct{ limit, key string }

// warning is one key that came to its warning.
type warning struct {
	counted
	at     time.Time
	window int64 // which window of the key it is about, the same on all nodes
	body   data
}

// message is the body of a call, as Standard Webhooks recommends it.
type message struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Timestamp api.Time `json:"timestamp"`
	Data      data     `json:"data"`
}

// data has the words of api.DenialLimit.
type data struct {
	Name       string  `json:"name"`
	Key        string  `json:"key"`
	Used       uint64  `json:"used"`
	Limit      uint64  `json:"limit"`
	PerSeconds float64 `json:"per_s"`
	Burst      uint64  `json:"burst"`
	Calendar   string  `json:"calendar,omitempty"`
	Node       string  `json:"node,omitempty"`
}

// newWarning is what a result says at a time; it keeps no part of the result.
func newWarning(r *admit.Result, window int64, node string, at time.Time) warning {
	key := strings.Clone(r.Key)
	return warning{
		counted: counted{r.Name, key}, at: at, window: window,
		body: data{
			Name: r.Name, Key: key, Used: r.Limit.Burst - r.Remaining, Limit: r.Limit.N, PerSeconds: r.Limit.Per.Seconds(), Burst: r.Limit.Burst,
			Calendar: r.Limit.Calendar.String(), Node: node,
		},
	}
}

// windowOf is the window of a result that warns now: its number is the same on all nodes, but for their clocks, and until its end the key is not told
// again. A quota by the calendar has its periods. Of other limits there is one in each interval (Pause at least): numbers are of intervals from
// the same beginning for all, and the end is an interval from now, so that a key that is warned of around the edge of two is told once.
func windowOf(r *admit.Result, now time.Time) (number int64, until time.Time) {
	if r.Limit.Calendar.Unit != limit.NoUnit {
		until = now.Add(r.Reset)
		return until.Round(time.Minute).Unix(), until // edges are at whole minutes
	}
	window := max(r.Limit.Interval(), Pause)
	return now.Truncate(window).Unix(), now.Add(window)
}

// id is the same for a key and window, whichever node sends it and however often, and nobody can make it without the secret.
func (w *warning) id(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(strconv.AppendInt(wire.AppendText(wire.AppendText(nil, w.limit), w.key), w.window, 10))
	return "warning_" + hex.EncodeToString(mac.Sum(nil)[:16])
}

// message is the body of the call, in JSON, with its id.
func (w *warning) message(secret []byte) (id string, body []byte, err error) {
	id = w.id(secret)
	body, err = json.Marshal(message{id, "limit.warning", api.Millis(w.at), w.body})
	return id, body, err
}
