package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/archive"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// finding is a line of weir doctor.
type finding struct {
	State string `json:"state"` // ok, warn or fail
	Check string `json:"check"`
	Says  string `json:"says"` // and what to do
}

// doctor collects findings.
type doctor struct {
	server   string // before the name of each check; "": it is of this machine
	findings []finding
}

// add grades a value by two bounds. todo says what to do if it is not below both.
func (d *doctor) add(check string, value, warn, fail float64, todo, says string, values ...any) {
	f := finding{"ok", strings.TrimSpace(d.server + " " + check), strings.ReplaceAll(fmt.Sprintf(says, values...), "\n", "; ")}
	if value >= warn {
		f.State, f.Says = "warn", f.Says+": "+todo
	}
	if value >= fail {
		f.State = "fail"
	}
	d.findings = append(d.findings, f)
}

// addResult adds the error of a check, or what it found.
func (d *doctor) addResult(check string, err error, todo, says string) {
	if err != nil {
		d.add(check, 1, 1, 1, todo, "%v", err)
	} else {
		d.add(check, 0, 1, 1, todo, "%s", says)
	}
}

func newDoctor(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := r.Define(&cobra.Command{
		Use:   "doctor",
		Short: "Check servers, settings and disks, and say what to do",
		Long: `Check running servers (--server), or the settings, data directory, certificates and peers
of a server on this machine (--config, --data, or the variables of weir serve). With
neither it checks the server at 127.0.0.1:8080. For a cluster, name all nodes.

Exit codes: 0 nothing fails, though there may be warnings, 1 a check fails, 2 invalid
command line or settings file.`,
		Example: "  weir doctor --server 10.0.0.1:8080,10.0.0.2:8080\n  weir doctor --config /etc/weir/weir.yaml",
	})
	own, f := pflag.NewFlagSet("", pflag.PanicOnError), newServeFlags()
	own.AddFlagSet(cmd.Flags())
	f.define(cmd) // settings are where weir serve finds them
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = own.Lookup(flag.Name) == nil && flag.Name != cli.ConfigFlag && flag.Name != "data"
	})
	cmd.RunE = cli.Work(w, func(cmd *cobra.Command, _ []string, given cli.Sources) error {
		d := &doctor{}
		if given[cli.ConfigFlag] != "" || given["data"] != "" {
			d.checkMachine(cmd.Context(), f, given)
		}
		if given["server"] != "" || d.findings == nil {
			for server := range strings.SplitSeq(cmd.Flag("server").Value.String(), ",") {
				c, err := r.Login.Client(server, "Server", given, client.Options{Retries: -1, Timeout: 10 * time.Second})
				if err != nil {
					return err
				}
				d.server = server
				d.checkServer(cmd.Context(), c)
			}
		}
		err := r.Print(w.Stdout, map[string]any{"findings": d.findings}, func(t *cli.Table) {
			for _, f := range d.findings {
				t.Row(f.State, f.Check, f.Says)
			}
		})
		if err == nil && slices.ContainsFunc(d.findings, func(f finding) bool { return f.State == "fail" }) {
			err = errors.New("a check fails")
		}
		return err
	})
	return cmd
}

// checkServer checks a server that runs.
func (d *doctor) checkServer(ctx context.Context, c *client.Client) {
	var cluster api.ClusterAnswer
	stats, err := c.Stats(ctx)
	began := time.Now()
	if err == nil {
		cluster, err = c.Cluster(ctx)
	}
	ahead, accuracy := time.Until(cluster.Now.Time), time.Since(began)
	if d.addResult("answers", err, "start it, or give --server, --token and --ca as it needs", "version "+stats.Version); err != nil {
		return
	}
	if here := buildVersion(); stats.Version != here {
		d.add("version", 1, 1, 2, "run one version everywhere", "the server is %s, this command %s", stats.Version, here)
	}
	side := map[bool]string{true: "behind", false: "ahead of"}[ahead < 0]
	d.add("clock", (ahead.Abs() - accuracy).Seconds(), 0.5, 5, "set the clocks by NTP", "%s %s this machine's, measured to %s", cli.SecondsText(ahead.Abs().Seconds()), side, cli.SecondsText(accuracy.Seconds()))
	for _, a := range stats.Alarms {
		d.add("alarm "+a.Code, 1, 1, map[bool]float64{true: 1, false: 2}[a.Refusing], "docs/cluster-operations.md lists alarms", "%s", a.Message)
	}
	d.add("cluster", float64(cluster.Unheld+len(cluster.Problems)), 1, 1, "weir cluster shows more", "nodes: %d, partitions without a node: %d, problems: %s", max(len(cluster.Nodes), 1), cluster.Unheld, cmp.Or(strings.Join(cluster.Problems, ", "), "none"))
	for _, n := range cluster.Nodes {
		if n.Late {
			d.add("node "+n.Node, n.LagS, 0, 60, "start it, or look at its log; weir cluster remove takes it out for good", "%s, %s behind", n.Why, cli.SecondsText(n.LagS))
		}
	}
	if j := stats.Journal; j != nil {
		d.add("disk", j.FlushSeconds, 0.1, 1, "use a faster disk, durable hits wait for it", "the last flush took %s", cli.SecondsText(j.FlushSeconds))
	}
	if j := cluster.Journal; j != nil {
		d.add("audit", float64(j.Holes)+float64(j.LossyFindings), 1, 1, "stop the node and run weir verify", "%d messages lost, %d damages that lost hits, %d flushes repaired", j.Holes, j.LossyFindings, j.Repaired)
	}
	text, err := c.Metrics(ctx)
	if err != nil {
		d.addResult("metrics", err, "use a token with role read for all keys", "")
		return
	}
	metrics := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		metrics[name], _ = strconv.ParseFloat(value, 64) // comments are no metrics
	}
	if open, most := metrics["process_open_fds"], metrics["process_max_fds"]; most > 0 {
		d.add("open files", open/most, 0.5, 0.9, "raise the limit (ulimit -n, LimitNOFILE=)", "%.0f of %.0f", open, most)
	}
	failed, makesBackups := metrics["weir_backup_failures_total"]
	if !makesBackups {
		d.add("backup", 1, 1, 2, "start the server with --backup-to", "it makes no backups by itself")
		return
	}
	newest := "not known to this node"
	if age, known := metrics["weir_backup_age_seconds"]; known {
		newest = cli.SecondsText(age) + " old"
	}
	d.add("backup", 0, 1, 2, "", "the newest is %s, failed attempts since the start: %.0f", newest, failed)
}

// checkMachine checks the settings of a server, and what they name on this machine.
func (d *doctor) checkMachine(ctx context.Context, f *serveFlags, from cli.Sources) {
	f.combine(from)
	err := f.readHistory(from)
	if err == nil {
		err = f.node.Validate()
	}
	d.addResult("settings", err, "weir serve does not start with them", "valid")
	if file := f.node.Policies.File; file != "" {
		_, err := policy.Load(file)
		d.addResult("policies", err, "weir serve does not start with them", file+" is valid")
	}
	if file := f.node.Tokens.File; file != "" {
		_, err := auth.Load(file)
		d.addResult("tokens", err, "weir serve does not start with them", file+" is valid")
	}
	join, dir, most := &f.node.Journal.Join, f.node.Journal.Dir, f.node.Journal.WithDefaults().MaxBytes
	if used, free, took, err := durable.ProbeDisk(dir); err != nil {
		d.add("disk", 1, 1, map[bool]float64{true: 2, false: 1}[errors.Is(err, fs.ErrNotExist)], "weir serve makes the directory, and must be able to write there", "%v", err)
	} else {
		d.add("disk space", float64(most-used)/max(float64(free), 1), 1, 10, "make space, or lower --max-disk", "%s has %s, may have %s, and %s is free", dir, units.FormatSize(used), units.FormatSize(most), units.FormatSize(free))
		d.add("disk speed", took.Seconds(), 0.2, 2, "use a faster disk, durable hits wait for it", "2 MiB took %s", cli.SecondsText(took.Seconds()))
	}
	for _, pair := range [][2]string{
		{f.node.TLS.Cert, f.node.TLS.Key}, {join.TLS.Cert, join.TLS.Key}, {join.ClientTLS.Cert, join.ClientTLS.Key}, {f.node.Regions.Cert, f.node.Regions.Key}, {f.node.RLS.XDS.Cert, f.node.RLS.XDS.Key},
	} {
		if pair[0] == "" {
			continue
		}
		if c, err := tls.LoadX509KeyPair(pair[0], pair[1]); err != nil {
			d.addResult("certificate", err, "put both files there", "")
		} else {
			d.add("certificate", -time.Until(c.Leaf.NotAfter).Hours(), -7*24, 0, "renew it", "%s is good until %s", pair[0], c.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if to := f.node.Backups.To; to != "" {
		p, err := archive.OpenPlace(to, f.insecurePeers)
		if err == nil {
			err = p.Try(ctx)
		}
		d.addResult("place of backups", err, "let the server write, read and delete there", "a file was written, read and deleted")
	}
	if peers := others(join.Peers, join.Addr); len(peers) > 0 {
		why := unreachable(ctx, peers)
		d.add("peers", float64(len(why)), 1, 1, "start that node, or let the firewall pass it", "%s: %s", strings.Join(peers, ", "), cmp.Or(why, "all answer"))
	}
}
