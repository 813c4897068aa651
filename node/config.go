package node

import (
	"cmp"
	"log/slog"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/resp"
	"github.com/weir-counter/weir/rls"
	"github.com/weir-counter/weir/server"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/statsd"
)

// Config sets up a Node, with one struct for each part. Journal.Dir must be given, or
// Ephemeral; zeros mean the defaults of the part.
type Config struct {
	// Engine counts. Memory and LimitMemory of 0 are 1 GiB and 256 MiB, or as much less
	// as their snapshots need to have room in Journal.MaxBytes; budgets that are given are
	// not changed. Gather is set by Start.
	Engine weir.Config

	// Ephemeral keeps hits in memory only: they are gone when the node ends. Journal is not
	// used then.
	Ephemeral bool

	// Journal keeps hits on disk. Its Join makes the node one of a cluster. Logger and
	// Join.Waiting are set by Start.
	Journal journal.Config

	// Regions make the node count for one of several regions, if its Region is given.
	Regions Regions
	// History keeps exact totals per hour and day for years, beside the journal.
	History History

	// CloseTimeout bounds the last flush and the snapshots of Close. Snapshots that are not
	// taken in time only make the next start longer. 0: 10 s.
	CloseTimeout time.Duration

	// Policies are the limits that keys have.
	Policies Policies

	// Warnings say whom to call when a key is near its limit.
	Warnings Warnings

	// Tokens say who may do what. Without them, and without TLS, doors listen on loopback alone, unless
	// Insecure.
	Tokens Tokens
	TLS    TLS
	// Insecure lets other machines reach doors that have no lock.
	Insecure bool
	// AuditLog is the file that the audit log is appended to, one record of JSON a line, opened
	// again at Reload. "": it goes to Logger.
	AuditLog string

	// Service is the ceilings that hold for all doors together. Logger and Audit are set by Start.
	Service service.Config

	// HTTP is the HTTP door. Logger and TLS are set by Start.
	HTTP server.Config

	// RESP is the door for clients of Redis, which there is if its Addr is given. MaxConns,
	// RequestTimeout, DrainDelay and StopTimeout that are zero are those of HTTP (RequestTimeout its
	// ReadTimeout). Logger and TLS are set by Start.
	RESP resp.Config

	// RLS is the door for Envoy, its rate limit service, which there is if its Addr is given. The fields named
	// for RESP are those of HTTP when they are zero here too. Logger and TLS are set by Start.
	RLS rls.Config

	// StatsD is the door for StatsD, which there is if its Addr is given. It has no TLS, and no tokens: with Tokens,
	// its Identity must be given. Logger is set by Start.
	StatsD statsd.Config

	// LimitProcess is for whoever has the process for itself: from Start to Close, the memory limit of
	// the Go runtime (debug.SetMemoryLimit) follows the budgets and what is in use (processLimit), so that the garbage
	// collector works harder before the process outgrows them, and less while the heap is small (debug.SetGCPercent).
	LimitProcess bool

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

	// API is FileWins or APIWins: policies may also be put by API (service.PutPolicy), and where one has the name of one of the file, the
	// file's is in use, or that of the API; or APIOff: they may not, and those that were are not in use. All nodes of a cluster need the same.
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

// DefaultConfig returns what the zero Config stands for, for flags to show. It has no
// Journal.Dir. Leave zero the budgets of memory that nobody chose: those of this Config count as
// given.
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
	cfg.setRESP()
	cfg.setRLS()
	cfg.setStatsD()
	if cfg.CloseTimeout == 0 {
		cfg.CloseTimeout = defaultCloseTimeout
	}
	e := &cfg.Engine
	e.Gather = !cfg.Ephemeral
	if e.Retention == 0 {
		e.Retention = defaultRetention
	}
	if e.MaxAhead == 0 {
		e.MaxAhead = defaultMaxAhead
	}
	cfg.setBudgets()
	return cfg
}

// setRESP gives the RESP door what it has in common with HTTP. Without an address it stays without one.
func (cfg *Config) setRESP() {
	r, h := &cfg.RESP, &cfg.HTTP
	r.Logger = cfg.Logger
	r.MaxConns = cmp.Or(r.MaxConns, h.MaxConns)
	r.RequestTimeout = cmp.Or(r.RequestTimeout, h.ReadTimeout)
	r.DrainDelay = cmp.Or(r.DrainDelay, h.DrainDelay)
	r.StopTimeout = cmp.Or(r.StopTimeout, h.StopTimeout)
	addr := r.Addr
	*r = r.WithDefaults()
	r.Addr = addr
}

// setRLS is setRESP for the door for Envoy.
func (cfg *Config) setRLS() {
	r, h := &cfg.RLS, &cfg.HTTP
	r.Logger = cfg.Logger
	r.MaxConns = cmp.Or(r.MaxConns, h.MaxConns)
	r.RequestTimeout = cmp.Or(r.RequestTimeout, h.ReadTimeout)
	r.DrainDelay = cmp.Or(r.DrainDelay, h.DrainDelay)
	r.StopTimeout = cmp.Or(r.StopTimeout, h.StopTimeout)
	addr := r.Addr
	*r = r.WithDefaults()
	r.Addr = addr
}

// setStatsD fills in the StatsD door. Without an address it stays without one.
func (cfg *Config) setStatsD() {
	addr := cfg.StatsD.Addr
	cfg.StatsD.Logger = cfg.Logger
	cfg.StatsD = cfg.StatsD.WithDefaults()
	cfg.StatsD.Addr = addr
}

// clustered is whether the node counts together with others.
func (cfg *Config) clustered() bool {
	return cfg.Journal.Join.Cluster != "" || cfg.Journal.Join.URL != ""
}
