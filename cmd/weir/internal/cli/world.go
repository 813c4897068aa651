package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"github.com/spf13/cobra"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cmd/weir/internal/settings"
	"github.com/weir-counter/weir/replay"
)

// World is what a command sees of the outside.
type World struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(name string) (string, bool)
	Environ        []string // all of env, as NAME=value
	Terminal       bool     // stderr is one
	Screen         bool     // stdin and stdout are one
	// Serving, if set, is told the address once a server listens: for tests.
	Serving func(addr string)
}

// failure is an error of the work itself. Every other error is one of usage.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// IsFailure tells whether an error of a command is one of its work.
func IsFailure(err error) bool { return errors.As(err, &failure{}) }

// Work makes RunE of a command: it settles the flags that the command line
// left open, and then calls do, whose errors are failures unless they say
// which setting was wrong.
func Work(w *World, do func(cmd *cobra.Command, args []string, from Sources) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		warnUnknown(w, cmd.Root())
		from, err := settings.Resolve(cmd.Flags(), w.Env)
		if err != nil {
			return err
		}
		err = do(cmd, args, from)
		var option *replay.OptionError
		var config *weir.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &option):
			return from.Blame(option.Field, option)
		case errors.As(err, &config) && config.Code == weir.CodeInvalidConfig:
			return from.Blame(config.Field, config)
		case errors.As(err, &usageError{}):
			return err
		}
		return failure{inFlags(loginHint(unreachable(cmd, err)))}
	}
}

// unreachable says what to do when no server answers, or not as it is asked.
func unreachable(cmd *cobra.Command, err error) error {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%w: it speaks no TLS: use http://", err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	flag := "--server"
	if cmd.Flags().Lookup("server") == nil {
		flag = "--to" // of weir replay
	}
	return fmt.Errorf("%w: is a server running? start one with weir serve, or name it with %s", err, flag)
}

// Sources says where the value of each flag came from.
type Sources = settings.Sources

// usageError is an error of usage that a command finds while it works.
type usageError struct{ error }

// Usage makes of an error one of usage, that a command finds while it works.
func Usage(err error) error { return usageError{err} }
