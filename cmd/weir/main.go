// Command weir counts hits: as a server (weir serve), as its client (weir hit,
// count, rate, top, series), and out of access logs (weir replay).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // quotas by the calendar, on machines without time zones

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/concurrency"
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

// processLimit keeps the memory of the process near what is in use. Left alone, the garbage collector lets a
// heap grow to twice that. A limit that adds up all budgets would not help: the budgets of limits and receipts are for
// the worst case, and a process that uses neither would fill them with garbage. So there are three bounds, in bytes of
// what the Go runtime has:
//
//	usual      what the node reports: a quarter more than the budgets of counters, and a floor. Below it the heap may double
//	in use     an eighth more than the last collection left: more than usual while limits, receipts, bodies or messages take memory
//	most       what all budgets together come to, with half as much again, as the node reports it
//
// and the limit is the larger of the first two, and at most the third. A small heap may more than double:
// collecting it all the time would be a tenth of what a decision over HTTP costs.
//
// The garbage collector belongs to the whole process. So only the process that is a server alone has
// a processLimit (cli.World.OwnsProcess): a node that a program embeds leaves the collector as it is.
type processLimit struct {
	usual, most atomic.Int64 // bytes, as the node reports them; without a report there is no limit
	stop        context.CancelFunc
	running     sync.WaitGroup
	percent     int // of growth that this limit has set; only the loop changes it. 0: whoever started the process set GOGC
}

// limitEvery is how often the limit follows what is in use.
const limitEvery = 200 * time.Millisecond

const (
	// leastSpare is what may be allocated, at the least, before the next collection.
	leastSpare = 8 << 20

	// leastGrowth is what may be allocated before the next collection where the limit permits it. A heap of as much
	// doubles.
	leastGrowth = 64 << 20
)

func newProcessLimit() *processLimit {
	ctx, stop := context.WithCancel(context.Background())
	l := &processLimit{stop: stop}
	l.usual.Store(math.MaxInt64)
	l.most.Store(math.MaxInt64)
	if gcPercent() == doubles { // else the user has set GOGC
		l.percent = doubles
	}
	l.follow(readHeap())
	l.running.Go(func() {
		concurrency.Every(ctx, limitEvery, func() bool {
			l.follow(readHeap())
			return true
		})
	})
	return l
}

// close ends following what is in use, and lifts the limit.
func (l *processLimit) close() {
	l.stop()
	l.running.Wait()
	debug.SetMemoryLimit(math.MaxInt64)
	l.grow(doubles)
}

// setBounds is node.Config.OnMemory.
func (l *processLimit) setBounds(usual, most int64) {
	l.usual.Store(usual)
	l.most.Store(most)
}

// follow sets the limit by what is in use.
func (l *processLimit) follow(h heap) {
	debug.SetMemoryLimit(h.limit(l.usual.Load(), l.most.Load()))
	l.grow(h.growth())
}

// grow sets by how many percent the heap may grow.
func (l *processLimit) grow(percent int) {
	if l.percent != 0 && percent != l.percent { // or the world would be stopped for nothing
		debug.SetGCPercent(percent)
		l.percent = percent
	}
}

// heap is what the Go runtime has, in bytes.
type heap struct {
	live  int64 // objects that the last collection found in use
	other int64 // what it has in addition to objects, and can't give back: stacks, tables, gaps between objects
}

// limit is what the runtime may have.
func (h heap) limit(usual, most int64) int64 {
	inUse := h.live + max(h.live/8, leastSpare) + h.other
	return min(max(usual, inUse), most)
}

// doubles is the growth, in percent, of a heap that doubles.
const doubles = 100

// growth is by how many percent the heap may grow before the next collection, in steps of doubles. The
// runtime collects no heap below 4 MiB for each of them.
func (h heap) growth() int {
	return max(1, int(leastGrowth/max(h.live, 4<<20))) * doubles
}

// gcPercent returns by how many percent the runtime lets the heap grow, as GOGC or debug.SetGCPercent says.
func gcPercent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	bytes := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return heap{live: bytes(0), other: bytes(1) - bytes(2) - bytes(3) - bytes(4)}
}

// The rest of this file reports to systemd as sd_notify(3) says. READY=1 is sent once, and only when the node is ready.
// STOPPING=1 is sent before the server ends. There is no answer.

// readyEvery is how often a server that starts asks itself whether it is ready.
const readyEvery = 100 * time.Millisecond

// notifySystemd sends a message when the server is ready, and when it stops (Type=notify). The socket is NOTIFY_SOCKET of the
// environment; with "" nothing is sent. stop waits until all is sent.
func notifySystemd(ctx context.Context, socket string, ready func() bool, log *slog.Logger) (stop func()) {
	if socket == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !ready() {
			concurrency.Every(ctx, readyEvery, func() bool { return !ready() })
		}
		if ctx.Err() == nil {
			sendState(socket, "READY=1\nSTATUS=ready", log)
		}
		<-ctx.Done()
		sendState(socket, "STOPPING=1\nSTATUS=stopping", log)
	}()
	return func() {
		cancel()
		<-done
	}
}

// sendState sends one message as sd_notify(3) does. A socket that begins with @ is abstract.
func sendState(socket, state string, log *slog.Logger) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close() // it was sent, or not
	}
	if err != nil {
		log.Warn("could not notify systemd", "state", state, "error", err)
	}
}
