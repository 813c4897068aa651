// Package live is the live log for those who look: whose hits and denials a caller may see, and what a view of them says.
package live

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/service/access"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/livelog"
)

// ownTime is how far a hit's own time is from when it was taken, to be told.
const ownTime = 2 * time.Second

// Service shows the log.
type Service struct {
	gate *access.Gate
	log  *livelog.Log
	node string // this one's name in a cluster
}

// New is a Service of a log that all hits and denials of a node are noted in.
func New(gate *access.Gate, log *livelog.Log, node string) *Service { return &Service{gate, log, node} }

// OpenLog begins to note hits and denials of keys that begin with prefix, as far as the caller may read them now. Its
// Close must follow. Callers who see the same share one tap.
func (s *Service) OpenLog(c caller.Caller, prefix string) (*livelog.Tap, error) {
	may, err := s.gate.Enter(c, auth.Read)
	if err != nil {
		return nil, err
	}
	parts, err := may.PartsOf(prefix)
	if err != nil {
		return nil, err
	}
	scope := ""
	if is, err := s.gate.Identity(c); err != nil {
		return nil, err
	} else if is != nil {
		scope = is.Scope()
	}
	tap, err := s.log.Open(fmt.Sprintf("%q %q %q", c.Name(), scope, prefix), c.String(), livelog.Reader{
		Keys: parts, Sees: func(limit, key string) bool { return may.Limit(limit) && may.Holds(key) },
	})
	switch {
	case errors.Is(err, livelog.ErrFull):
		return nil, &failure.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("%d different live logs are open: look at one of those, or close some", livelog.MaxTaps)}
	case errors.Is(err, livelog.ErrShare):
		return nil, &failure.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("you look at %d different live logs, your share: close some, so that others can look too", livelog.MaxOwn)}
	}
	return tap, err
}

// LogView is what a tap has now. It ends an interval of the tap.
func (s *Service) LogView(tap *livelog.Tap) api.LogView {
	v := tap.View()
	answer := api.LogView{
		Since: api.Millis(v.Since), At: api.Millis(v.At), Node: s.node, Events: make([]api.LogEvent, len(v.Events)),
		Hits: api.LogShare(v.Hits), Denials: api.LogShare(v.Denials),
	}
	for i, e := range v.Events {
		of := &answer.Events[i]
		*of = api.LogEvent{Number: e.Number, Kind: "hit", At: api.Millis(e.At), Key: strings.ToValidUTF8(e.Key, "\ufffd"), N: e.N}
		if e.Limit != "" {
			of.Kind, of.Limit, of.Denial = "denial", e.Limit, e.Denial
		} else if e.At.Sub(e.Of).Abs() >= ownTime {
			its := api.Millis(e.Of)
			of.Of = &its
		}
	}
	return answer
}
