package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cmd/weir/internal/settings"
	"github.com/weir-counter/weir/replay"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the work failed
	exitUsage   = 2 // the command line, a variable or the settings file is wrong
	exitDenied  = 3 // weir allow: a limit said no
)

// world is what a command sees of the outside.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(name string) (string, bool)
	environ        []string // all of env, as NAME=value
	terminal       bool     // stderr is one
	// serving, if set, is told the address once a server listens: for tests.
	serving func(addr string)
}

func system() *world {
	return &world{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv, environ: os.Environ(),
		terminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, w *world, args []string) int {
	root := newRoot(w)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if errors.As(err, &denied{}) {
		return exitDenied
	}
	var failed failure
	if errors.As(err, &failed) {
		fmt.Fprintf(w.stderr, "weir: %v\n", err)
		return exitFailure
	}
	fmt.Fprintf(w.stderr, "weir: %v\nRun 'weir --help' or 'weir COMMAND --help' for usage.\n", err)
	return exitUsage
}

// failure is an error of the work itself. Every other error is one of usage.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func newRoot(w *world) *cobra.Command {
	root := &cobra.Command{
		Use:     "weir",
		Version: buildVersion(),
		Short:   "Count hits in rolling windows",
		Long: `Weir counts hits in rolling windows: how many in the last second, 5 minutes, day.

Run a server with 'weir serve', send it hits with 'weir hit' or over HTTP, and
ask with 'weir count'. Or count what an access log holds with 'weir replay'. Limit
requests with 'weir serve --policy FILE' and 'weir allow'.

Every flag may also be given as a variable of the environment: --max-ahead is
WEIR_MAX_AHEAD. The command line goes before the environment, and that before
the settings file of 'weir serve --config'.

Exit codes: 0 all went well, 1 the work failed, 2 the command line or a
setting is wrong, 3 'weir allow' was denied.`,
		Args: func(cmd *cobra.Command, given []string) error {
			if len(given) > 0 {
				return unknownCommand(cmd, given[0])
			}
			return nil
		},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(w.stdin)
	root.SetOut(w.stdout)
	root.SetErr(w.stderr)
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newServe(w), newHit(w), newAllow(w), newCount(w), newRate(w), newTop(w), newSeries(w), newKeys(w), newDelete(w), newStats(w), newCluster(w), newReplay(w),
		newLimits(w), newVerify(w), newBackup(w), newRestore(w), newToken(w), newVersion(w),
	)
	return root
}

// work makes RunE of a command: it settles the flags that the command line
// left open, and then calls do, whose errors are failures unless they say
// which setting was wrong.
func work(w *world, do func(cmd *cobra.Command, args []string, from sources) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		warnUnknown(w, cmd.Root())
		from, err := settings.Resolve(cmd.Flags(), w.env)
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
		case errors.As(err, &usage{}):
			return err
		}
		return failure{inFlags(loginHint(unreachable(cmd, err)))}
	}
}

// unreachable says what to do when no server answers.
func unreachable(cmd *cobra.Command, err error) error {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	flag := "--server"
	if cmd.Flags().Lookup("server") == nil {
		flag = "--to" // of weir replay
	}
	return fmt.Errorf("%w: is a server running? start one with weir serve, or name it with %s", err, flag)
}

// sources says where the value of each flag came from.
type sources = settings.Sources

// usage is an error of usage that a command finds while it works.
type usage struct{ error }
