package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/cmd/weir/internal/limits"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the work failed
	exitUsage   = 2 // the command line, a variable or the settings file is wrong
	exitDenied  = 3 // weir allow: a limit said no
)

func system() *cli.World {
	return &cli.World{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Environ: os.Environ(),
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Screen:   term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, w *cli.World, args []string) int {
	root := newRoot(w)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if errors.As(err, &denied{}) {
		return exitDenied
	}
	if cli.IsFailure(err) {
		fmt.Fprintf(w.Stderr, "weir: %v\n", err)
		return exitFailure
	}
	fmt.Fprintf(w.Stderr, "weir: %v\nRun 'weir --help' or 'weir COMMAND --help' for usage.\n", err)
	return exitUsage
}

func newRoot(w *cli.World) *cobra.Command {
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
		Args:          cli.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(w.Stdin)
	root.SetOut(w.Stdout)
	root.SetErr(w.Stderr)
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(
		newServe(w), newHit(w), newAllow(w), limits.NewWhy(w), newCount(w), newRate(w), newTop(w), newWatch(w), newSeries(w), newKeys(w), newDelete(w), newStats(w), newCluster(w), newRegions(w), newRegion(w), newReplay(w),
		limits.New(w), limits.NewPolicies(w), newVerify(w), newBackup(w), newExport(w), newRestore(w), newToken(w), newVersion(w),
	)
	return root
}
