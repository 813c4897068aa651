package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/node"
)

// A setting is declared once, here. Its flag, its variable of the environment, its line in the settings file, the
// help, docs/settings.md, and the setting that an error of node.Config names are derived from it.
type setting struct {
	// name is the name of the flag. The variable of --max-ahead is WEIR_MAX_AHEAD, its YAML key max-ahead.
	name string
	// to is a pointer to the value; what it points to is the default. Its type says how the value is written.
	// A *time.Duration is more than 0, a *delay 0 or more, and an *int64 a size in bytes. A *[]string is a list,
	// *repeated a list without commas, *tlsFiles a directory. An *int, *bool, *string or pflag.Value is as it says.
	to   any
	help string
	// words are what a *string may be, if it is one of a few.
	words []string
	// common settings are in `weir serve --help`; --help-all has the others too.
	common bool
	// unset is what the help says of the default, if the value that `to` points to does not.
	unset string
}

// A group is a heading of the help.
type group struct {
	title    string
	settings []setting
}

type (
	delay    time.Duration
	repeated []string
)

// groups are all settings of weir serve, in the order of the help.
func (f *serveFlags) groups() []group {
	cfg := &f.node
	e, j, s, h := &cfg.Engine, &cfg.Journal, &cfg.Service, &cfg.HTTP
	c, r, l, hist := &j.Join, &cfg.RESP, &cfg.RLS, &cfg.History
	regions := &cfg.Regions
	return []group{
		{"Listeners", []setting{
			{name: "http", to: &h.Addr, common: true, help: "`host:port`, or unix:/path, of the HTTP API and the dashboard"},
			{name: "web", to: &h.Web, common: true, help: "`site` whose page views count, such as example.com (docs/web.md)"},
			{name: "resp", to: &r.Addr, common: true, help: "`host:port`, or unix:/path, for Redis clients (docs/resp.md)"},
			{name: "resp-count-prefix", to: &r.CountPrefix, help: "key `prefix` of counters whose increments also count as hits"},
			{name: "rls", to: &l.Addr, common: true, help: "`host:port`, or unix:/path, for Envoy's rate limit service (docs/envoy.md)"},
			{name: "rls-config", to: &l.Limits, help: "`file` or folder with limits in envoyproxy/ratelimit's format"},
			{name: "rls-xds", to: &l.XDS.Addr, help: "`[node@]host:port` of a management server (Envoy Gateway) with the limits; node is the name to send"},
			{name: "rls-xds-tls", to: &tlsFiles{&l.XDS.CA, &l.XDS.Cert, &l.XDS.Key}, help: "`directory` with ca.crt, and optionally tls.crt and tls.key"},
			{name: "rls-algorithm", to: &f.rlsAlgorithm, words: []string{limit.Window.String(), limit.Fixed.String(), limit.GCRA.String()}, help: "algorithm for --rls-config; fixed is like envoyproxy/ratelimit"},
			{name: "rls-headers", to: &l.Headers, words: []string{"draft", "none"}, help: "rate limit header fields that Envoy adds to responses"},
			{name: "from", to: (*repeated)(&cfg.Topics.From), common: true, help: "`URL` of a NATS stream or Kafka topic whose messages are hits (docs/topics.md); may be repeated"},
			{name: "statsd", to: &cfg.StatsD.Addr, common: true, help: "`host:port` for StatsD over UDP and TCP (docs/statsd.md)"},
			{name: "statsd-key", to: &cfg.StatsD.Key, help: "`template` of the key: text, {name}, {tag:NAME}, {tags}"},
			{name: "statsd-identity", to: &cfg.StatsD.Identity, help: "`identity` in the tokens file to which StatsD hits belong"},
		}},
		{"Access", []setting{
			{name: "tokens", to: &cfg.Tokens.File, common: true, help: "`file` of tokens, roles and key prefixes (see 'weir token create')"},
			{name: "tls-cert", to: &cfg.TLS.Cert, common: true, help: "PEM `file` with the server's certificate"},
			{name: "tls-key", to: &cfg.TLS.Key, common: true, help: "PEM `file` with the key of --tls-cert"},
			{name: "tls-client-ca", to: &cfg.TLS.ClientCA, help: "PEM `file` with the authorities of client certificates"},
			{name: "tls-min", to: &f.tlsMin, words: []string{"1.3", "1.2"}, help: "lowest TLS version to accept"},
			{name: "insecure", to: &cfg.Insecure, common: true, help: "serve other machines without --tokens or --tls-cert"},
			{name: "insecure-peers", to: &f.insecurePeers, help: "connect to nodes, regions, brokers and webhooks on other machines without TLS or credentials"},
			{name: "allow-host", to: &h.AllowHosts, help: "host `name` that clients use for this server, *.example.com or *; IP addresses and local names are always allowed"},
			{name: "allow-origin", to: &h.AllowOrigins, help: "`origin` (scheme://host[:port]) whose web pages may call the API"},
			{name: "audit-log", to: &cfg.AuditLog, unset: "the log", help: "`file` for the audit log of admin actions, one JSON object per line"},
		}},
		{"Storage", []setting{
			{name: "data", to: &j.Dir, common: true, help: "data `directory`; created if it does not exist"},
			{name: "ephemeral", to: &cfg.Ephemeral, common: true, help: "keep hits in memory only"},
			{name: "demo", to: &f.demo, common: true, help: "generate sample traffic and policies, in memory only (docs/dashboard.md)"},
			{name: "retention", to: &e.Retention, common: true, help: "how long hits are kept, 1s to 1000000000s"},
			{name: "shrink-retention", to: &j.ShrinkRetention, help: "allow a --retention shorter than before, which drops older hits"},
			{name: "memory", to: &e.Memory, common: true, help: "memory budget of the counters; the process needs more (docs/deploy.md)"},
			{name: "idempotency-memory", to: &e.OnceMemory, help: "memory budget for Idempotency-Keys of the last 10 minutes; other nodes' keys can use twice as much"},
			{name: "max-disk", to: &j.MaxBytes, common: true, help: "size of the data directory at which hits are refused"},
			{name: "flush-every", to: &j.FlushEvery, help: "interval between writes to disk, 1ms to 1m; a crash loses at most one interval"},
			{name: "snapshot-every", to: &j.SnapshotBytes, help: "journal bytes between snapshots"},
			{name: "max-ahead", to: &e.MaxAhead, help: "how far in the future a hit's time may be"},
			{name: "clock", to: &f.clock, words: []string{"wall", "event"}, help: "what \"now\" is: the time of day, or the time of the newest hit"},
			{name: "backup-to", to: &cfg.Backups.To, common: true, help: "`URL` of the place for backups that the server makes by itself: file:/directory or s3://bucket/prefix (docs/durability.md)"},
			{name: "accept-damage", to: &j.AcceptDamage, help: "start with a damaged data directory, without the lost hits"},
		}},
		{"Limits", []setting{
			{name: "policy", to: &cfg.Policies.File, common: true, help: "YAML `file` with the limits of keys (docs/policies.md)"},
			{name: "policies-api", to: &cfg.Policies.API, words: node.PoliciesAPI, help: "whether the API can change policies, and which of two with the same name applies"},
			{name: "limit-memory", to: &e.LimitMemory, help: "memory budget for the usage of limits; Redis counters can take a quarter more"},
			{name: "max-inline-per", to: &s.MaxInlinePer, help: "longest period of a limit sent with a request"},
		}},
		{"Cluster", []setting{
			{name: "cluster", to: &c.Cluster, common: true, help: "`name` of the cluster to join (docs/cluster.md)"},
			{name: "node", to: &c.Node, common: true, help: "`name` of this node, unique in the cluster"},
			{name: "cluster-addr", to: &c.Addr, common: true, help: "`host:port` at which other nodes reach this one"},
			{name: "cluster-listen", to: &c.Listen, help: "`host:port` to listen on for other nodes, if it differs from --cluster-addr (NAT, containers)"},
			{name: "peers", to: &c.Peers, common: true, help: "comma-separated --cluster-addr of all nodes; with one address, a single node"},
			{name: "cluster-secret-file", to: &c.SecretFile, common: true, help: "`file` with the secret that all nodes share, at least 16 bytes"},
			{name: "cluster-tls", to: &tlsFiles{&c.TLS.CA, &c.TLS.Cert, &c.TLS.Key}, help: "`directory` with ca.crt, tls.crt and tls.key for mutual TLS between nodes"},
			{name: "replicas", to: cli.NumberOrAll(&j.Replicas), help: "number of nodes that hold each partition"},
			{name: "move-after", to: &j.MoveAfter, help: "how long a node may be unreachable before other nodes take over its partitions"},
			{name: "nats", to: &c.URL, help: "comma-separated `URLs` of an existing NATS to use instead of --cluster, nats://host:port"},
			{name: "nats-creds", to: &c.Creds, help: "credentials `file` for --nats (JWT and key)"},
			{name: "nats-tls", to: &tlsFiles{&c.ClientTLS.CA, &c.ClientTLS.Cert, &c.ClientTLS.Key}, help: "`directory` with ca.crt, and optionally tls.crt and tls.key, for --nats"},
		}},
		{"Regions", []setting{
			{name: "region", to: &regions.Region, common: true, help: "`name` of the region that this server or its cluster counts for (docs/regions.md)"},
			{name: "link", to: (*repeated)(&regions.Links), common: true, help: "`NAME=URL` of another region to pull counts from; may be repeated"},
			{name: "link-token-file", to: &regions.TokenFile, help: "`file` with the token for all links, or lines of region name and token"},
			{name: "link-tls", to: &tlsFiles{&regions.CA, &regions.Cert, &regions.Key}, unset: "the system's authorities", help: "`directory` with ca.crt for the other regions, and optionally tls.crt and tls.key"},
		}},
		{"History", []setting{
			{name: "history", to: &hist.On, help: "keep exact totals per hour and day for years (docs/history.md); not with --ephemeral"},
			{name: "history-url", to: &hist.URL, unset: "the file " + history.File + " in --data", help: "database of the history: sqlite:FILE, postgres://... or mysql://..."},
			{name: "history-keep", to: &f.historyKeep, help: "how long hours and days are kept, `[PREFIX=]HOURS/DAYS`; may be repeated"},
			{name: "history-slot", to: &hist.Slot, help: "length of an \"hour\": 15m or 30m for time zones with half hours; fixed when the history is created"},
			{name: "history-disk", to: &hist.MaxBytes, unset: "a quarter of --max-disk, in addition to it", help: "size at which a SQLite history drops its oldest hours"},
			{name: "history-every", to: &hist.Every, help: "interval between writes to the history, 100ms to 1m"},
		}},
		{"Operation", []setting{
			{name: cli.ConfigFlag, to: &f.config, common: true, help: "YAML `file` with settings"},
			{name: "alerts", to: &cfg.Alerts.File, help: "YAML `file` with bounds of counts, and where to send events when keys cross them (docs/alerts.md)"},
			{name: "log-level", to: &f.logLevel, words: []string{"debug", "info", "warn", "error"}, help: "lowest level to log"},
			{name: "log-format", to: &f.logFormat, words: []string{"text", "json"}, help: "format of the log"},
			{name: "traces", to: &cfg.Traces.To, help: "`URL` of an OpenTelemetry collector, grpc://host:4317 or http://host:4318/v1/traces (docs/metrics.md)"},
			{name: "max-in-flight", to: &s.MaxInFlight, help: "concurrent requests of each kind (docs/crowding.md)"},
			{name: "max-conns", to: &h.MaxConns, help: "open connections per listener; a further connection closes an idle one"},
			{name: "durable-timeout", to: &s.DurableTimeout, help: "how long a durable hit may wait for the disk"},
			{name: "drain-delay", to: (*delay)(&h.DrainDelay), help: "how long /readyz is 503 before listeners close, for load balancers"},
			{name: "stop-timeout", to: &h.StopTimeout, help: "time for open requests to finish when the server stops; if set, also for the last hits to reach the disk then"},
		}},
	}
}

// define adds the flags of all settings.
func (f *serveFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, g := range f.groups() {
		for _, s := range g.settings {
			s.define(cmd)
			flag := flags.Lookup(s.name)
			flag.Annotations = map[string][]string{groupOf: {g.title}}
			if field := fieldOf(reflect.ValueOf(&f.node).Elem(), s.to); field != "" {
				flag.Annotations[cli.FieldOf] = []string{field}
			}
			if s.common {
				flag.Annotations[isCommon] = nil
			}
			if s.unset != "" {
				flag.DefValue = ""
				flag.Usage += " (default: " + s.unset + ")"
			}
		}
	}
	cmd.SetHelpFunc(serveHelp(cmd.HelpFunc()))
	flags.Bool("help-all", false, "show all settings")
}

// Annotations of flags.
const (
	groupOf  = "group"
	isCommon = "common"
)

// define adds the setting's flag.
func (s setting) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	switch to := s.to.(type) {
	case *string:
		if s.words != nil {
			cli.Choice(cmd, to, s.name, s.help, s.words...)
			return
		}
		flags.StringVar(to, s.name, *to, s.help)
	case *[]string:
		flags.StringSliceVar(to, s.name, *to, s.help)
	case *repeated:
		flags.StringArrayVar((*[]string)(to), s.name, *to, s.help)
	case *bool:
		flags.BoolVar(to, s.name, *to, s.help)
	case *int:
		flags.Var(cli.Number(to), s.name, s.help)
	case *int64:
		flags.Var(cli.Size(to), s.name, s.help)
	case *time.Duration:
		flags.Var(cli.Duration(to), s.name, s.help)
	case *delay:
		flags.Var(cli.Delay((*time.Duration)(to)), s.name, s.help)
	case pflag.Value:
		flags.Var(to, s.name, s.help)
	default:
		panic(fmt.Sprintf("setting %s has a value of type %T", s.name, to))
	}
}

// fieldOf returns the path of the field that ptr points to, below a struct: Journal.MaxBytes. "": there is none.
func fieldOf(in reflect.Value, ptr any) string {
	switch to := ptr.(type) {
	case *delay:
		ptr = (*time.Duration)(to)
	case *repeated:
		ptr = (*[]string)(to)
	}
	for i := range in.NumField() {
		field := in.Field(i)
		if !field.CanAddr() || !in.Type().Field(i).IsExported() {
			continue
		}
		name := in.Type().Field(i).Name
		if field.Addr().Interface() == ptr {
			return name
		}
		if field.Kind() == reflect.Struct {
			switch below := fieldOf(field, ptr); {
			case below != "" && in.Type().Field(i).Anonymous:
				return below
			case below != "":
				return name + "." + below
			}
		}
	}
	return ""
}

// tlsFiles is a directory with PEM files as Kubernetes and cert-manager name them: ca.crt, tls.crt and tls.key. A
// file that is not there stays unset.
type tlsFiles struct{ ca, cert, key *string }

func (t *tlsFiles) Type() string { return "directory" }

func (t *tlsFiles) String() string {
	for _, file := range []*string{t.ca, t.cert, t.key} {
		if file != nil && *file != "" {
			return filepath.Dir(*file)
		}
	}
	return ""
}

func (t *tlsFiles) Set(dir string) error {
	found := false
	for name, file := range map[string]*string{"ca.crt": t.ca, "tls.crt": t.cert, "tls.key": t.key} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			*file, found = path, true
		}
	}
	if !found {
		return fmt.Errorf("%q has none of the files ca.crt, tls.crt and tls.key", dir)
	}
	return nil
}

// serveHelp prints the help of serve: the common settings in groups, or all of them with --help-all.
func serveHelp(other func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		if cmd.Name() != "serve" {
			other(cmd, args)
			return
		}
		all := cmd.Flags().Changed("help-all")
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n", cmd.Long, cmd.UseLine(), cmd.Example)
		for _, title := range append(groupTitles(), "Help") {
			below := pflag.NewFlagSet(title, pflag.ContinueOnError)
			below.SortFlags = false
			cmd.Flags().VisitAll(func(flag *pflag.Flag) {
				group, has := flag.Annotations[groupOf]
				_, common := flag.Annotations[isCommon]
				if !has && title == "Help" || has && group[0] == title && (all || common) {
					below.AddFlag(flag)
				}
			})
			if below.HasFlags() {
				fmt.Fprintf(out, "\n%s:\n%s", title, below.FlagUsages())
			}
		}
	}
}

// groupTitles are the headings of the help.
func groupTitles() (titles []string) {
	for _, g := range (&serveFlags{}).groups() {
		titles = append(titles, g.title)
	}
	return titles
}
