package resp

import (
	"errors"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// kinds are the kinds of the service's errors that clients do well to tell apart: all others
// are ERR. TRYAGAIN says that nothing was done and that the request may be sent again; clients such as
// go-redis do that by themselves.
var kinds = map[api.Code]string{
	api.CodeOverloaded: "TRYAGAIN",
	api.CodeStarting:   "LOADING",
	api.CodeStopping:   "LOADING",
	api.CodeClosed:     "LOADING",

	api.CodeUnauthorized: "NOAUTH",
	api.CodeForbidden:    "NOPERM",
	api.CodeCeiling:      "TRYAGAIN",
}

var errNoAuth = argument.Fail("ERR", "AUTH is not taken: this server was started without --tokens; leave user and password out")

// fail writes why a request failed.
func (s *session) fail(err error) {
	var own *argument.Error
	if !errors.As(err, &own) {
		e := service.AsError(err)
		own = argument.Fail("ERR", string(e.Code)+": "+e.Message)
		if kind := kinds[e.Code]; kind != "" {
			own.Kind = kind
		}
		if e.Code == api.CodeUnauthorized && !s.caller.Known() {
			own.Text += ": send AUTH NAME TOKEN; 'weir token create' makes one"
		}
	}
	s.server.commands.failed.Add(1)
	s.out.Error(own.Kind, own.Text)
}
