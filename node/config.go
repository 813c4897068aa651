package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/alerts"
	"github.com/weir-counter/weir/internal/archive"
	"github.com/weir-counter/weir/internal/cluster/membership"
	internaldurable "github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/server/envoy"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/server/resp"
	"github.com/weir-counter/weir/internal/server/statsd"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/topics"
	"github.com/weir-counter/weir/policy"
)

// Config sets up a Node, with one struct for each part. Journal.Dir must be given, or
// Ephemeral; zeros mean the defaults of the part.
type Config struct {
	// Engine counts. Memory and LimitMemory of 0 are 1 GiB and 256 MiB, or less if their snapshots would not fit into
	// Journal.MaxBytes. Gather is set by Start.
	Engine weir.Config

	// Ephemeral keeps hits in memory only: they are gone when the node ends. Journal is not used then.
	Ephemeral bool

	// Journal keeps hits on disk. Its Join makes the node one of a cluster. Logger and Join.Waiting are set by Start.
	Journal internaldurable.Config

	// Regions make the node count for one of several regions, if its Region is given.
	Regions Regions
	// History keeps exact totals per hour and day for years.
	History History

	// CloseTimeout bounds the last flush and the snapshots of Close. Snapshots that are not
	// taken in time only make the next start longer. 0: 10 s.
	CloseTimeout time.Duration

	// Policies are the limits that keys have.
	Policies Policies

	// Alerts says what to announce when counts cross bounds, or keys are near their limits.
	Alerts alerts.Config

	// Tokens say who may do what. Without Tokens and TLS, listeners accept loopback addresses only, unless Insecure.
	Tokens Tokens
	TLS    TLS
	// Insecure lets other machines reach listeners without Tokens or TLS.
	Insecure bool
	// AuditLog is the file that the audit log is appended to, one record of JSON a line, opened
	// again at Reload. "": it goes to Logger.
	AuditLog string

	// Service is the ceilings that hold for all listeners together. Logger and Audit are set by Start.
	Service service.Config

	// HTTP is the HTTP listener. Logger and TLS are set by Start.
	HTTP httpapi.Config

	// RESP is the listener for clients of Redis, if its Addr is given. MaxConns, RequestTimeout, DrainDelay and StopTimeout
	// of zero are the same as for HTTP (RequestTimeout its ReadTimeout). Logger and TLS are set by Start.
	RESP resp.Config

	// RLS is the rate limit service for Envoy, if its Addr is given. Zeros are the same as for RESP. Logger and TLS are set
	// by Start.
	RLS envoy.Config

	// StatsD is the listener for StatsD, if its Addr is given. It has no TLS, and no tokens: with Tokens, its Identity must
	// be given. Logger is set by Start.
	StatsD statsd.Config

	// Topics are streams and topics of brokers whose messages are hits. Not of an ephemeral node.
	Topics topics.Config

	// Backups says where the node keeps backups that it makes by itself. Not of an ephemeral node.
	Backups archive.Config

	// Traces says where spans of requests go.
	Traces Traces

	// OnMemory, if set, gets what the process needs for this node, in bytes. The first number is what the Go runtime needs
	// while neither limits nor receipts are in use. The second is what the process takes when all budgets are used. It is
	// called at the start, and when the number of other regions changes. The program may use it for debug.SetMemoryLimit, as
	// weir serve does; a node does not change the process.
	OnMemory func(usual, most int64)

	// Logger takes the messages of all parts. nil: slog.Default().
	Logger *slog.Logger
}

// Policies say where the limits of keys are written.
type Policies struct {
	// File is the policy file, read at the start, again when it changes, and at Reload.
	// "": there is none, and only requests that bring a limit along have one.
	File string

	// Set are policies that no file is followed for: in use where there is no File.
	Set *policy.Set

	// API says whether policies may also be put by API, and which one is in use if the file has the same name: FileWins or
	// APIWins. With APIOff none may be put, and earlier ones are not in use. All nodes of a cluster need the same.
	API string
}

// What a Policies' API may be. "" is FileWins.
const (
	APIOff   = "off"
	FileWins = "file-wins"
	APIWins  = "api-wins"
)

// PoliciesAPI are its words.
var PoliciesAPI = []string{APIOff, FileWins, APIWins}

const (
	defaultMemory       = 1 << 30
	defaultLimitMemory  = 256 << 20
	defaultOnceMemory   = 64 << 20
	defaultRetention    = 30 * 24 * time.Hour
	defaultMaxAhead     = 5 * time.Second
	defaultCloseTimeout = 10 * time.Second
)

// DefaultConfig returns what the zero Config stands for, for flags to show. It has no Journal.Dir. Do not copy its budgets
// of memory: Start reduces only budgets that are zero.
func DefaultConfig() Config { return Config{}.withDefaults() }

func (cfg Config) withDefaults() Config {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Journal.Logger, cfg.Service.Logger, cfg.HTTP.Logger = cfg.Logger, cfg.Logger, cfg.Logger
	cfg.Service.Audit = cfg.Logger
	cfg.Journal = cfg.Journal.WithDefaults()
	cfg.Service = cfg.Service.WithDefaults()
	cfg.HTTP = cfg.HTTP.WithDefaults()
	cfg.Policies.API = cmp.Or(cfg.Policies.API, FileWins)
	cfg.setListeners()
	cfg.CloseTimeout = cmp.Or(cfg.CloseTimeout, defaultCloseTimeout)
	e := &cfg.Engine
	e.Gather = !cfg.Ephemeral
	e.Retention = cmp.Or(e.Retention, defaultRetention)
	e.MaxAhead = cmp.Or(e.MaxAhead, defaultMaxAhead)
	cfg.setBudgets()
	return cfg
}

// setListeners fills in the listeners other than HTTP. Without an address they stay without one.
func (cfg *Config) setListeners() {
	r, e, s := &cfg.RESP, &cfg.RLS, &cfg.StatsD
	cfg.setLikeHTTP(&r.MaxConns, &r.RequestTimeout, &r.DrainDelay, &r.StopTimeout)
	cfg.setLikeHTTP(&e.MaxConns, &e.RequestTimeout, &e.DrainDelay, &e.StopTimeout)
	r.Logger, e.Logger, s.Logger = cfg.Logger, cfg.Logger, cfg.Logger
	respAddr, rlsAddr, statsdAddr := r.Addr, e.Addr, s.Addr
	*r, *e, *s = r.WithDefaults(), e.WithDefaults(), s.WithDefaults()
	r.Addr, e.Addr, s.Addr = respAddr, rlsAddr, statsdAddr
}

// setLikeHTTP sets what a listener has in common with HTTP, if it is zero.
func (cfg *Config) setLikeHTTP(maxConns *int, request, drain, stop *time.Duration) {
	*maxConns = cmp.Or(*maxConns, cfg.HTTP.MaxConns)
	*request = cmp.Or(*request, cfg.HTTP.ReadTimeout)
	*drain = cmp.Or(*drain, cfg.HTTP.DrainDelay)
	*stop = cmp.Or(*stop, cfg.HTTP.StopTimeout)
}

// clustered reports whether the node counts together with others.
func (cfg *Config) clustered() bool {
	return cfg.Journal.Join.Cluster != "" || cfg.Journal.Join.URL != ""
}

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field that is not valid, with its part:
// Journal.FlushEvery, HTTP.Addr. Start does the same, before it opens anything. Files are not read, except for the cluster's
// secret and certificates of links.
func (cfg Config) Validate() error { return cfg.withDefaults().validate() }

func (cfg Config) validate() error {
	if cfg.CloseTimeout < 0 {
		return settings.Invalid("CloseTimeout", fmt.Sprintf("CloseTimeout of %v: must be above 0s", cfg.CloseTimeout))
	}
	if !slices.Contains(PoliciesAPI, cfg.Policies.API) {
		return settings.Invalid("Policies.API", fmt.Sprintf("%q: must be %s", cfg.Policies.API, strings.Join(PoliciesAPI, ", ")))
	}
	return cmp.Or(
		in("Service", cfg.Service.Validate()),
		in("RESP", cfg.RESP.Validate()),
		in("RLS", cfg.RLS.Validate()),
		in("StatsD", cfg.StatsD.Validate()),
		in("HTTP", cfg.HTTP.Validate(cfg.Service.DurableTimeout)),
		cfg.validateTraces(),
		cfg.validateLocks(),
		cfg.validateStatsD(),
		cfg.validateMemory(machineMemory()),
		cfg.validateJournal(),
		cfg.validateHistory(),
		in("Topics", cfg.Topics.Validate()),
		in("Backups", cfg.Backups.Validate()),
		in("Engine", cfg.Engine.Validate()),
	)
}

func (cfg Config) validateJournal() error {
	if cfg.Ephemeral {
		if cfg.clustered() || cfg.Journal.Replicas > 0 {
			return settings.Invalid("Ephemeral", "nodes count together by their journals, and an ephemeral one has none: leave out one of the two")
		}
		if cfg.Regions.Region != "" {
			return settings.Invalid("Ephemeral", "regions count together by their journals, and an ephemeral node has none: leave out one of the two")
		}
		if len(cfg.Topics.From) > 0 {
			return settings.Invalid("Ephemeral", "the position of a topic is kept in the journal, and an ephemeral node has none: leave out one of the two")
		}
		if cfg.Backups.To != "" {
			return settings.Invalid("Ephemeral", "backups are of the journal, and an ephemeral node has none: leave out one of the two")
		}
		return nil
	}
	if err := cfg.validateRegions(); err != nil {
		return err
	}
	if err := cfg.Journal.Validate(); err != nil {
		return in("Journal", err)
	}
	as := cfg.Journal.Join
	if as.URL != "" && as.Node == "" {
		return settings.Invalid("Journal.Join.Node", "--nats needs --node NAME: another name for each node, by which answers say who is late")
	}
	as.Dir, as.MaxBytes = filepath.Clean(cfg.Journal.Dir), cfg.Journal.MaxBytes
	if err := as.Validate(); err != nil {
		return settings.Invalid("Journal.Join", err.Error())
	}
	return in("Journal", cfg.Journal.FitsMemory(cfg.Engine))
}

// in adds the part to the field of an error.
func in(part string, err error) error {
	if wrong, ok := errors.AsType[*engine.Error](err); ok {
		return &engine.Error{Code: wrong.Code, Field: part + "." + wrong.Field, Message: wrong.Message}
	}
	return err
}

func (cfg Config) validateHistory() error {
	if !cfg.History.On {
		return nil
	}
	if cfg.Ephemeral {
		return settings.Invalid("History.On", "history is made of the journal, and an ephemeral node has none: leave out History, or Ephemeral")
	}
	if field, err := cfg.History.Validate(); err != nil {
		return settings.Invalid("History."+field, err.Error())
	}
	return nil
}

// regionSetting is the name of the setting that says for which region a node counts.
const regionSetting = "--region"

// settings returns hashes of the settings that all nodes of a cluster need alike, as they are now. Otherwise limits and regions would
// depend on which node is asked.
func (n *Node) settings(policies *admit.Live) membership.Settings {
	file := policies.Set().Content()
	values := map[string]string{
		"--policy":         string(file[:]),
		"--policies-api":   n.cfg.Policies.API,
		"--alerts":         n.alerts.Content(),
		"--max-inline-per": n.cfg.Service.MaxInlinePer.String(),
		"--replicas":       strconv.Itoa(n.cfg.Journal.Replicas),
		regionSetting:      n.cfg.Regions.Region,
	}
	if h := n.cfg.History; h.On {
		keep := slices.SortedFunc(slices.Values(h.WithDefaults("").Keep), func(a, b store.Keep) int { return strings.Compare(a.Prefix, b.Prefix) })
		values["--history-keep"] = fmt.Sprintf("%#v", keep)
	}
	hashes := membership.Settings{}
	for name, value := range values {
		hash := sha256.Sum256([]byte(value))
		hashes[name] = binary.LittleEndian.Uint64(hash[:])
	}
	return hashes
}
