package body

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

func fail(code api.Code, field, message string) *service.Error {
	return &service.Error{Code: code, Field: field, Message: message}
}

func reject(code api.Code, message string) *service.Rejection {
	return &service.Rejection{Code: code, Message: message}
}
