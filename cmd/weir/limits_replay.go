package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/replay/shadow"
	"github.com/weir-counter/weir/policy"
)

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
  weir limits replay --policy policies.yaml access.log --json --denied denied.tsv`

// limitsReplayFlags are the flags of weir limits replay.
type limitsReplayFlags struct {
	options shadow.Options
	denied  string
	out     reportFlags
}

func limitsNewReplay(w *cli.World) *cobra.Command {
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
	flags.StringVar(&f.denied, "denied", "", "write every denied request to this file, tab-separated")
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
	return writeReport(cmd, w, &f.out, "limits", &o.Log, []string{o.PolicyFile, f.denied}, func() (_ *shadow.Report, err error) {
		if f.denied != "" {
			file, problem := cli.CreateApart("--denied", f.denied, w.Stdin, append([]string{o.PolicyFile}, o.Log.Files...))
			if problem != nil {
				return nil, problem
			}
			defer func() { err = errors.Join(err, file.Close()) }()
			o.Denied = file
		}
		return shadow.Run(cmd.Context(), o)
	})
}
