package resp

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// Bucket asks one key's limit that the request brings along, and takes n of it, all or none; peek takes and
// counts nothing. To ask for more than the burst is no error: it is denied, and Never. The result is valid until
// the next decision of the session.
func (s *session) Bucket(key []byte, l admit.Limit, n uint64, peek bool) (*admit.Result, error) {
	if err := refused(service.CheckKey(argument.View(key))); err != nil {
		return nil, err
	}
	a := &s.allowing
	a.inline = l
	a.requests = append(a.requests[:0], admit.Request{Key: argument.View(key), Inline: &a.inline, N: n})
	d := &a.decision
	d.NoID = true // neither CL.THROTTLE nor a script has a place for it
	defer func() { d.NoID = false }()
	err := s.server.service.Allow(s.caller, a.requests, peek, d)
	if err != nil && (service.AsError(err).Code != api.CodeInvalidCount || !d.Never) {
		return nil, err
	}
	return &d.Results[0], nil
}
