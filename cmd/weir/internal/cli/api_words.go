package cli

import (
	"errors"
	"strings"

	"github.com/weir-counter/weir/client"
)

// apiWords are words of the HTTP API in errors of a server, each with that of the command line.
var apiWords = strings.NewReplacer("mode=replace", "--mode replace", "durable=true", "--durable", "GET /v1/cluster", "weir cluster")

// reworded is an error with a text of its own.
type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }

// inFlags says what a server refused in the words of the command line.
func inFlags(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || apiWords.Replace(refused.Detail) == refused.Detail {
		return err
	}
	return reworded{err, strings.Replace(err.Error(), refused.Detail, apiWords.Replace(refused.Detail), 1)}
}
