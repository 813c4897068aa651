package rls

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// statuses are the codes of the service's errors that can come of a decision. All others are Internal.
var statuses = map[api.Code]codes.Code{
	api.CodeInvalidKey:       codes.InvalidArgument,
	api.CodeInvalidCount:     codes.InvalidArgument,
	api.CodeInvalidLimit:     codes.InvalidArgument,
	api.CodeInvalidParameter: codes.InvalidArgument,
	api.CodeUnknownLimit:     codes.NotFound,

	api.CodeOverloaded: codes.Unavailable,
	api.CodeStarting:   codes.Unavailable,
	api.CodeStopping:   codes.Unavailable,
	api.CodeClosed:     codes.Unavailable,
	api.CodeClientGone: codes.Canceled,

	api.CodeUnauthorized: codes.Unauthenticated,
	api.CodeForbidden:    codes.PermissionDenied,
	api.CodeCeiling:      codes.ResourceExhausted,
}

// failed is an error as gRPC has it: the text begins with the code of it, as at other doors.
func failed(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	e := service.AsError(err)
	code, known := statuses[e.Code]
	if !known {
		code = codes.Internal
	}
	return status.Error(code, string(e.Code)+": "+e.Message)
}

func invalid(code api.Code, field, message string) error {
	return &service.Error{Code: code, Field: field, Message: message}
}

// unauthorized is the error of a caller that must prove an identity, and says how.
func unauthorized(err error, c service.Caller) error {
	if e := service.AsError(err); e.Code == api.CodeUnauthorized && !c.Known() {
		told := *e
		told.Message += ": send the metadata authorization: Bearer TOKEN ('weir token create' makes one), or a client certificate"
		return &told
	}
	return err
}
