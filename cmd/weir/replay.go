package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/replay/shadow"
	"github.com/weir-counter/weir/internal/service/pageviews"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/web"
)

const replayHelp = `Read access logs and report what is in them: hits, span, the busiest second,
minute and 5 minutes, the rate now, the top keys, late and malformed lines.

A FILE can be plain, .gz or .zst; - is standard input. Several are read one after
the other. The format is detected from the first lines:

  clf   Apache, nginx or Traefik, common or combined
  s3    server access logs of Amazon S3
  w3c   columns that a #Fields line names, as Amazon CloudFront and IIS write them
  json  one object per line, with the time in a field at, time, timestamp, ts,
        @timestamp, time_iso8601 or time_local, and optionally a count in n or count
  tsv   epoch count [key], with tabs or spaces between them

The time zone of each line is used. A key template makes the key of a line. Its
fields are, for clf: {host} {ident} {user} {time} {request} {method} {path}
{proto} {status} {bytes} {referer} {agent}, and {vhost} of vhost_combined; for s3 these and {bucket} {operation}
{key} {error}; for w3c these and every column; for json: every field, of inner objects {request.uri}; for tsv: {key}.
A value of - is none. Other values are not changed; {path} includes the query string.

Totals, busiest windows and rates are exact. They count each line once, whatever the
number of templates. A line is late if a line before it in the same file has a newer
time; it still counts.

With --site, successful GETs of pages count as 'weir serve --web' counts views, from
logs of Apache, nginx, Caddy, Traefik, CloudFront and S3. Crawlers count as filtered. A visitor
is an address with a user agent, and another one each day; --to sends no visitors.

With --to, all keys are counted on a server, at the times of the lines. The server's
--retention must be long enough. There, the key * counts each line once per template.
A batch without an answer is sent again and counts once; with --durable each batch is
on the server's disk before the next one is sent. The same FILEs with the same keys
count once within ten minutes, so a failed replay can be repeated; --again counts
them again.

With --follow, the last FILE is read as it grows, through rotation, until
interrupted. A restart reads that file from its start: with --to its lines are then
counted a second time. --from-end starts at its end.`

const replayExamples = `  weir replay access.log
  weir replay access.log.2.gz access.log.1 access.log --key url:{path} --key status:{status}
  weir replay --to http://127.0.0.1:8080 --follow --from-end access.log`

type replayFlags struct {
	cli.Login
	options  replay.Options
	to, site string
	compress client.Compression
	durable  bool
	out      reportFlags
}

func newReplay(w *cli.World) *cobra.Command {
	f := replayFlags{compress: "none", options: replay.Options{
		Format: replay.Auto, Top: 10, Memory: 1 << 30, MaxAhead: 5 * time.Second, StatusEvery: 10 * time.Second,
	}}
	cmd := &cobra.Command{
		Use:     "replay FILE...|-",
		Short:   "Count what is in access logs",
		Long:    replayHelp,
		Example: replayExamples,
		Args:    cli.Args("FILE..."),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			f.options.Files = args
			return f.replay(cmd, w, from)
		}),
	}
	o, flags := &f.options, cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&o.Keys, "key", nil, "key template, may be repeated (default url:{path} and host:{host}; json and tsv: {key})")
	flags.StringVar(&f.site, "site", "", "count page views under the keys that 'weir serve --web' has for this host, such as example.com, without crawlers")
	cli.Choice(cmd, &o.Format, "format", "format of the files", replay.Formats...)
	flags.VarP(cli.Number(&o.Top), "top", "n", "how many keys to list per template")
	flags.StringVar(&f.to, "to", "", "send all hits to the server at this address")
	f.Login.Define(cmd)
	cli.Choice(cmd, &f.compress, "compress", "compress what is sent", "none", client.Gzip, client.Zstd)
	flags.BoolVar(&f.durable, "durable", false, "with --to, "+cli.DurableHelp)
	flags.BoolVar(&o.Again, "again", false, "with --to, count lines again that the server counted within ten minutes")
	flags.BoolVarP(&o.Follow, "follow", "f", false, "keep reading the last file as it grows; a restart reads it from its start")
	flags.BoolVar(&o.FromEnd, "from-end", false, "with --follow, start at the end of the last file, like tail -f -n 0")
	flags.Var(cli.Duration(&o.StatusEvery), "every", "how often --follow reports its progress")
	flags.Var(cli.Size(&o.Memory), "memory", "memory budget for the keys")
	flags.Var(cli.Duration(&o.MaxAhead), "max-ahead", "how far in the future a line's time may be")
	f.out.define(cmd)
	return cmd
}

func (f *replayFlags) replay(cmd *cobra.Command, w *cli.World, from cli.Sources) error {
	o := f.options
	if f.durable && f.to == "" {
		return cli.Usage(errors.New("--durable needs --to"))
	}
	if f.to != "" {
		compression := f.compress
		if compression == "none" {
			compression = client.None
		}
		to, err := f.Login.Client(f.to, "To", from, client.Options{Compression: compression, Durable: f.durable})
		if err != nil {
			return err
		}
		o.To = to
	}
	if cmd.Flags().Changed("site") {
		log, err := pageviews.NewLog(f.site)
		if err != nil {
			return cli.Usage(fmt.Errorf("--site: %w", err))
		}
		o.Site = &replay.Site{Keys: log.Templates(), Views: log.Views(), Filtered: log.Filtered(), Make: func(r replay.Request) []string {
			v := pageviews.View{Path: string(r.Path), Referrer: string(r.Referrer), Agent: string(r.Agent), Prefetch: bytes.HasPrefix(r.Purpose, []byte("pre"))}
			return log.Keys(string(r.Method), string(r.Status), &v)
		}}
	}
	if o.Follow {
		o.Status = func(s replay.Status) { fmt.Fprintln(w.Stderr, s) }
	}
	return writeReport(cmd, w, &f.out, "replay", &o, nil, func() (*replay.Report, error) { return replay.Run(cmd.Context(), o) })
}

// reportFlags say how a report is written.
type reportFlags struct {
	json bool
	html string
}

func (f *reportFlags) define(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().StringVar(&f.html, "html", "", "also write the report to this file, as one HTML page with charts")
}

// writeReport has run read the files of o, and writes its report. others are files that it reads or writes too.
func writeReport[R interface {
	comparable
	Print(w io.Writer) error
}](cmd *cobra.Command, w *cli.World, f *reportFlags, kind string, o *replay.Options, others []string, run func() (R, error)) error {
	o.Stdin = w.Stdin
	if _, err := replay.TotalSize(o.Files); err != nil {
		return err
	}
	var page *os.File
	if f.html != "" { // the work is long: what is wrong with the file is reported before
		var err error
		if page, err = cli.CreateOutput("--html", f.html, w.Stdin, slices.Concat(others, o.Files)); err != nil {
			return err
		}
	}
	report, err := run()
	var none R
	if page != nil && report != none {
		err = errors.Join(err, web.Report(page, kind, cmd.Root().Version, time.Now(), report))
	}
	if page != nil {
		err = errors.Join(err, page.Close())
	}
	switch {
	case report == none:
		return err
	case f.json:
		e := json.NewEncoder(w.Stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return errors.Join(err, e.Encode(report))
	}
	return errors.Join(err, report.Print(w.Stdout))
}

const limitsReplayHelp = `Read access logs and report what limits would have done to their requests: who would
have been denied, when, how often and by which limit, and which limit would have denied
nobody, or at most 1 %. Nothing is sent anywhere.

The limits are those of a policy file, as for 'weir serve --policy'. All of them are
enforced, also those in shadow mode: a request that one limit denies takes nothing of
the others. With --as-written, policies in shadow mode deny nothing.

FILEs are read as by 'weir replay': plain, .gz, .zst or - in the formats clf, json and
tsv. A line with a count of n is n requests. Key templates make the keys of a line; a
line with several keys is one request. Without --key, the templates ip:{host},
address:{host}, host:{host}, url:{path} and path:{path} are used that the policies' keys
begin with (default ip:{host}), and {key} for json and tsv. To limit a page per address,
use the key page:{path}:{host} and a policy with keys: "page:/login:*".

Each request is decided at the second of its line. A line that is older than one before
it is decided at the newer time. Name the oldest file first, and sort logs that are far
out of order.

Counts are exact. If more keys are denied than fit in --memory, the report says what is
no longer exact.`

const limitsReplayExamples = `  weir limits replay --policy policies.yaml access.log
  weir limits replay --policy policies.yaml access.log.2.gz access.log.1 access.log --top 20
  weir limits replay --policy policies.yaml access.log --key 'page:{path}:{host}' --key 'ip:{host}'
  weir limits replay --policy policies.yaml access.log --json`

type limitsReplayFlags struct {
	options shadow.Options
	out     reportFlags
}

func newLimitsReplay(w *cli.World) *cobra.Command {
	f := limitsReplayFlags{options: shadow.Options{
		Top: 10, Memory: 256 << 20, LimitMemory: 256 << 20,
		Log: replay.Options{Format: replay.Auto, MaxAhead: 5 * time.Second},
	}}
	cmd := &cobra.Command{
		Use:     "replay --policy POLICIES FILE...|-",
		Short:   "Show what limits would have done to an access log",
		Long:    limitsReplayHelp,
		Example: limitsReplayExamples,
		Args:    cli.Args("FILE..."),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, _ cli.Sources) error {
			f.options.Log.Files = args
			return f.replay(cmd, w)
		}),
	}
	o, flags := &f.options, cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.PolicyFile, "policy", "", "file of the policies")
	flags.StringArrayVar(&o.Log.Keys, "key", nil, "key template, may be repeated (default: by the beginning of the policies' keys)")
	cli.Choice(cmd, &o.Log.Format, "format", "format of the files", replay.Formats...)
	flags.BoolVar(&o.AsWritten, "as-written", false, "let policies in shadow mode deny nothing")
	flags.VarP(cli.Number(&o.Top), "top", "n", "how many of the most denied keys to list for each limit")
	flags.Var(cli.Size(&o.Memory), "memory", "memory budget for the report about keys")
	flags.Var(cli.Size(&o.LimitMemory), "limit-memory", "memory budget for the usage of limits")
	flags.Var(cli.Duration(&o.Log.MaxAhead), "max-ahead", "how far in the future a line's time may be")
	f.out.define(cmd)
	return cmd
}

func (f *limitsReplayFlags) replay(cmd *cobra.Command, w *cli.World) (err error) {
	o := f.options
	if o.PolicyFile == "" {
		return cli.Usage(errors.New("--policy is missing: name the file of the policies to try"))
	}
	if o.Policies, err = policy.Load(o.PolicyFile); errors.As(err, new(*fs.PathError)) {
		return fmt.Errorf("--policy: %w", err)
	} else if err != nil {
		return err
	}
	return writeReport(cmd, w, &f.out, "limits", &o.Log, []string{o.PolicyFile}, func() (*shadow.Report, error) { return shadow.Run(cmd.Context(), o) })
}
