// Package servertest makes the HTTP listener of an engine in memory, for tests that need no whole
// node. It links neither the journal nor other listeners.
package servertest

import (
	"net/http"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/service"
)

// Handler answers for an engine, with default settings. policies may be nil.
func Handler(e *engine.Engine, policies *admit.Live) (http.Handler, error) {
	of, err := service.New(service.Backend{Engine: e, Policies: policies}, service.Config{})
	if err != nil {
		return nil, err
	}
	listener, err := httpapi.New(of, httpapi.Config{})
	if err != nil {
		return nil, err
	}
	return listener.Handler(), nil
}
