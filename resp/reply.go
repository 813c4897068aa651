package resp

import (
	"errors"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// replyError is an error as it is written: its kind, and what is wrong.
type replyError struct{ kind, text string }

func (e *replyError) Error() string { return e.kind + " " + e.text }

// The errors of Redis, in its words, which clients may know.
var (
	errSyntax     = &replyError{"ERR", "syntax error"}
	errNotInteger = &replyError{"ERR", "value is not an integer or out of range"}
	errOverflow   = &replyError{"ERR", "increment or decrement would overflow"}
	errExpireTime = &replyError{"ERR", "invalid expire time"}
	errNoAuth     = &replyError{"ERR", "AUTH is not taken: this server was started without --tokens; leave user and password out"}
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

// fail writes why a request failed.
func (s *session) fail(err error) {
	var own *replyError
	if !errors.As(err, &own) {
		e := service.AsError(err)
		own = &replyError{"ERR", string(e.Code) + ": " + e.Message}
		if kind := kinds[e.Code]; kind != "" {
			own.kind = kind
		}
		if e.Code == api.CodeUnauthorized && !s.caller.Known() {
			own.text += ": send AUTH NAME TOKEN; 'weir token create' makes one"
		}
	}
	s.server.commands.failed.Add(1)
	s.out.Error(own.kind, own.text)
}
