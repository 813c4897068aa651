// Command weir counts hits: as a server (weir serve), as its client (weir hit,
// count, rate, top, series), and out of access logs (weir replay).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // quotas by the calendar, on machines without time zones

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/weir-counter/weir/internal/cli"
	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to finish; the second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, system(), os.Args[1:]))
}

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the work failed
	exitUsage   = 2 // the command line, a variable or the settings file is wrong
	exitDenied  = 3 // weir allow: denied by a limit
)

func system() *cli.World {
	return &cli.World{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Environ: os.Environ(),
		Screen: term.IsTerminal(int(os.Stdout.Fd())), OwnsProcess: true,
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
		fmt.Fprintf(w.Stderr, "weir: %s\n", cli.LinesText(err.Error()))
		return exitFailure
	}
	fmt.Fprintf(w.Stderr, "weir: %s\nRun 'weir --help' or 'weir COMMAND --help' for usage.\n", cli.LinesText(err.Error()))
	return exitUsage
}

func newRoot(w *cli.World) *cobra.Command {
	root := &cobra.Command{
		Use:     "weir",
		Version: buildVersion(),
		Short:   "Count hits in rolling windows",
		Long: `Weir counts hits in rolling windows: how many in the last second, 5 minutes, day.

Run a server with 'weir serve', send it hits with 'weir hit' or over HTTP, and
query it with 'weir count'. Count what is in an access log with 'weir replay'.
Limit requests with 'weir serve --policy FILE' and 'weir allow'.

Every flag can also be an environment variable: --max-ahead is WEIR_MAX_AHEAD.
The command line takes precedence over the environment, and the environment over
the settings file of 'weir serve --config'.

Exit codes: 0 success, 1 failure, 2 invalid command line or setting,
3 'weir allow' was denied.`,
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
		newServe(w), newHit(w), newAllow(w), newWhy(w), newCount(w), newRate(w), newTop(w), newSeries(w), newKeys(w), newDelete(w), newStats(w), newCluster(w), newRegions(w), newRegion(w), newReplay(w), newSize(w),
		newLimits(w), newPolicies(w), newVerify(w), newBackup(w), newExport(w), newRestore(w), newDoctor(w), newToken(w), newVersion(w), newMan(root),
	)
	cli.Complete(root)
	return root
}

// version is set by the linker in a release.
var version = ""

// buildVersion is the version of a release, or else of the module that go install built, or else "dev".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// versionFacts are the version and, as far as the build knows them, its commit and the commit's date.
func versionFacts() map[string]string {
	facts := map[string]string{"version": buildVersion(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				facts["commit"] = s.Value
			case "vcs.time":
				facts["date"] = s.Value
			}
		}
	}
	return facts
}

func versionText() string {
	f := versionFacts()
	text := "weir " + f["version"] + " ("
	if f["commit"] != "" {
		text += "commit " + f["commit"][:min(12, len(f["commit"]))] + ", " + f["date"] + ", "
	}
	return text + f["go"] + ", " + f["platform"] + ")\n"
}

func newVersion(w *cli.World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: cli.Work(w, func(*cobra.Command, []string, cli.Sources) error {
			if asJSON {
				return json.NewEncoder(w.Stdout).Encode(versionFacts())
			}
			_, err := io.WriteString(w.Stdout, versionText())
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// newMan writes the man pages of packages.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the man pages into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return doc.GenManTree(root, &doc.GenManHeader{Title: "WEIR", Section: "1", Source: "Weir", Manual: "Weir"}, args[0])
		},
	}
}
