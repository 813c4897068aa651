package service

import (
	"context"
	"log/slog"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/policy/kept"
	"github.com/weir-counter/weir/service/accounts"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/decisions"
	"github.com/weir-counter/weir/service/doors"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/files"
	"github.com/weir-counter/weir/service/ingest"
	"github.com/weir-counter/weir/service/livelog"
	"github.com/weir-counter/weir/service/outcomes"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/reads"
	"github.com/weir-counter/weir/service/sources"
	"github.com/weir-counter/weir/service/tally"
	"github.com/weir-counter/weir/service/warnings"
)

// What a door needs of the rooms inside this one has a name here: a door imports service.
type (
	// Error is why a request failed.
	Error = failure.Error
	// Caller is who a request comes from.
	Caller = caller.Caller
	// CallerCounts is how much each caller has of something.
	CallerCounts = caller.Counts
	// Pool bounds what may be under way at once; Pools are those of all doors.
	Pool  = pools.Pool
	Pools = pools.Pools
	// PoolStats are the figures of a pool.
	PoolStats = pools.Figures
	// AccountStats are the figures of one identity.
	AccountStats = accounts.Figures
	// Decisions is how often a policy decided how, since the start.
	Decisions = outcomes.Figures
	// Tokens is the file that says who may do what.
	Tokens     = files.Tokens
	TokenStats = files.TokenStats
	// Tally is what became of the hits of a request so far.
	Tally = tally.Tally
	// Expected is a key that Expect has looked for.
	Expected = weir.Expected
	// Rejection is why a hit of a request was not counted.
	Rejection = parse.Rejection
	// LogTap is what somebody sees of the live log.
	LogTap = livelog.Tap
	// PolicyFile is the file that policies come from.
	PolicyFile      = files.PolicyFile
	PolicyFileStats = files.PolicyFileStats
	// KeptPolicies are those that were put by API.
	KeptPolicies = files.KeptPolicies
	KeptStats    = files.KeptStats
	// Warnings sends those of limits to an address.
	Warnings       = warnings.Teller
	WarningsConfig = warnings.Config
	WarningFigures = warnings.Figures
	// PolicyVersion is what must be so for a policy to be changed.
	PolicyVersion = kept.Condition
	// Alarm is something that is wrong now.
	Alarm = api.Alarm
	// FeedRequest is what a region asks for that pulls.
	FeedRequest = backend.FeedRequest

	// Door is a way in that has figures and alarms of its own; Limited is one that has limits of its own.
	Door          = doors.Door
	Limited       = doors.Limited
	DoorFigures   = doors.Figures
	DoorRequests  = doors.Requests
	PacketFigures = doors.Packets
	// RequestStats are the figures of requests of hits.
	RequestStats = ingest.RequestStats

	// Answers is who answers questions about keys in a cluster whose nodes hold a share of them each.
	Answers = sources.Answers
	Fresh   = sources.Fresh
	// Scope says whose hits an answer has.
	Scope = parse.Scope

	// Questions, each of the method of its name.
	CountQuestion    = sources.CountQuestion
	CountQuery       = reads.CountQuery
	Counting         = reads.Counting
	SeriesQuery      = reads.SeriesQuery
	AlignedQuery     = reads.AlignedQuery
	Spans            = reads.Spans
	TopQuery         = reads.TopQuery
	AlignedTopQuery  = reads.AlignedTopQuery
	KeysQuery        = reads.KeysQuery
	ExportQuery      = reads.ExportQuery
	DecisionQuestion = decisions.DecisionQuestion
	WhoQuery         = decisions.WhoQuery
	Reservation      = decisions.Reservation
)

// DefaultWindow is that of a question that names none; MaxBatch bounds the questions of one Batch.
const (
	DefaultWindow = reads.DefaultWindow
	MaxBatch      = sources.MaxBatch
	// MaxPolicyText bounds a policy that is put by API, in bytes.
	MaxPolicyText = kept.MaxText
)

// AsError is err as an *Error: that of the engine or of a context is turned into one.
func AsError(err error) *Error { return failure.As(err) }

// Clip keeps an echo of a caller's own words short.
func Clip(s string) string { return failure.Clip(s) }

// OpenWarnings begins to send warnings (warnings.Open), signed with a secret that ParseWarningSecret read.
func OpenWarnings(cfg WarningsConfig) *Warnings { return warnings.Open(cfg) }

// ParseWarningSecret reads the secret that warnings are signed with (warnings.ParseSecret).
func ParseWarningSecret(text string) ([]byte, error) { return warnings.ParseSecret(text) }

// CheckKey is what is wrong with a key; nil: nothing (parse.Key).
func CheckKey(key string) *Rejection { return parse.Key(key) }

// CheckHitKey is CheckKey for a key that is hit (parse.HitKey).
func CheckHitKey(key string) *Rejection { return parse.HitKey(key) }

// ParseCount reads how many hits (parse.Count).
func ParseCount(text string) (uint64, *Rejection) { return parse.Count(text) }

// ParseAt reads the time of a hit, of which it keeps no part (parse.At).
func ParseAt(text string) (time.Time, *Rejection) { return parse.At(text) }

// ParseWindow reads the window of a question, which field names (parse.Window).
func ParseWindow(field, text string) (time.Duration, error) { return parse.Window(field, text) }

// ParseTime reads the time of a question, which field names; "" is the zero time, which stands for now (parse.Time).
func ParseTime(field, text string) (time.Time, error) { return parse.Time(field, text) }

// ParseAgo is ParseTime that also takes a duration before now, -365d (parse.Ago).
func ParseAgo(field, text string, now time.Time) (time.Time, error) {
	return parse.Ago(field, text, now)
}

// ParseScope reads whose hits a question is about; "" is the default (parse.ScopeOf).
func ParseScope(text string) (Scope, error) { return parse.ScopeOf(text) }

// ParseByRegion tells whether an answer is to have the part of each region: region, or "" (parse.ByRegion).
func ParseByRegion(text string) (bool, error) { return parse.ByRegion(text) }

// ParseFresh reads how long a question waits for a fresh answer; "" is 0, not at all (parse.Fresh).
func ParseFresh(text string) (time.Duration, error) { return parse.Fresh(text) }

// CallerAt is the client of a connection, by its remote address host:port.
func CallerAt(remote string) Caller { return caller.At(remote) }

// OpenToOthers tells whether other machines may reach an address that a door listens on.
func OpenToOthers(addr string) bool { return caller.OpenToOthers(addr) }

// NewTokens locks a service with a Set that no file is followed for.
func NewTokens(set *auth.Set) *Tokens { return files.NewTokens(set) }

// ReadTokens reads the tokens file for the first time (files.ReadTokens).
func ReadTokens(path string) (*Tokens, error) { return files.ReadTokens(path) }

// ReadPolicyFile reads the policy file for the first time (files.ReadPolicyFile).
func ReadPolicyFile(path string) (*PolicyFile, *policy.Set, error) { return files.ReadPolicyFile(path) }

// OpenKept reads the policies that were put by API (files.OpenKept).
func OpenKept(ctx context.Context, store backend.Document, live *admit.Live, first bool, log *slog.Logger) (*KeptPolicies, error) {
	return files.OpenKept(ctx, store, live, first, log)
}

// Fingerprint tells requests under the same idempotency key apart, by their content and the kind that it is written
// in (ingest.Fingerprint).
func Fingerprint(kind byte, content []byte) uint64 { return ingest.Fingerprint(kind, content) }

// Refunded is by how many more requests may pass after a Refund (decisions.Refunded).
func Refunded(made []admit.Changed) uint64 { return decisions.Refunded(made) }

// Milliseconds rounds up: who waits for so long has waited long enough.
func Milliseconds(d time.Duration) time.Duration { return decisions.Milliseconds(d) }
