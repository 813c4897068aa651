package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/service/backend"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/policy"
)

// What a door needs of the rooms inside this one has a name here: a door imports service.
type (
	// Error is why a request failed.
	Error = request.Error
	// Need is what a request needs of its caller.
	Need = access.Need
	// Caller is who a request comes from.
	Caller = access.Caller
	// CallerCounts is how much each caller has of something.
	CallerCounts = access.CallerCounts
	// Pool bounds what may be under way at once; Pools are those of all doors.
	Pool  = access.Pool
	Pools = access.Pools
	// PoolStats are the figures of a pool.
	PoolStats = access.PoolFigures
	// AccountStats are the figures of one identity.
	AccountStats = access.AccountFigures
	// Decisions is how often a policy decided how, since the start.
	Decisions = activity.OutcomeFigures
	// Tokens is the file that says who may do what.
	Tokens     = access.Tokens
	TokenStats = access.TokenStats
	// Tally is what became of the hits of a request so far.
	Tally = ingest.Tally
	// Expected is a key that Expect has looked for.
	Expected = weir.Expected
	// Rejection is why a hit of a request was not counted.
	Rejection = request.Rejection
	// LogTap is what somebody sees of the live log.
	LogTap = activity.Tap
	// PolicyFile is the file that policies come from.
	PolicyFile      = access.PolicyFile
	PolicyFileStats = access.PolicyFileStats
	// KeptPolicies are those that were put by API.
	KeptPolicies = access.KeptPolicies
	KeptStats    = access.KeptStats
	// Warnings sends those of limits to an address.
	Warnings       = limits.Warnings
	WarningsConfig = limits.WarningConfig
	WarningFigures = limits.WarningFigures
	// PolicyVersion is what must be so for a policy to be changed.
	PolicyVersion = admit.PolicyCondition
	// Alarm is something that is wrong now.
	Alarm = api.Alarm
	// FeedRequest is what a region asks for that pulls.
	FeedRequest = backend.FeedRequest

	// Door is a way in that has figures and alarms of its own; Limited is one that has limits of its own.
	Door          = access.Listener
	Limited       = access.ListenerLimited
	DoorFigures   = access.ListenerFigures
	DoorRequests  = access.ListenerRequests
	PacketFigures = access.ListenerPackets
	// RequestStats are the figures of requests of hits.
	RequestStats = ingest.RequestStats

	// Answers is who answers questions about keys in a cluster whose nodes hold a share of them each.
	Answers = queries.Answers
	Fresh   = queries.Fresh
	// Scope says whose hits an answer has.
	Scope = request.Scope

	// Questions, each of the method of its name.
	CountQuestion    = queries.CountQuestion
	CountQuery       = queries.CountQuery
	Counting         = queries.Counting
	SeriesQuery      = queries.SeriesQuery
	AlignedQuery     = queries.AlignedQuery
	Spans            = queries.Spans
	TopQuery         = queries.TopQuery
	AlignedTopQuery  = queries.AlignedTopQuery
	KeysQuery        = queries.KeysQuery
	ExportQuery      = queries.ExportQuery
	DecisionQuestion = limits.DecisionQuestion
	WhoQuery         = limits.WhoQuery
	Reservation      = limits.Reservation
)

// DefaultWindow is that of a question that names none; MaxBatch bounds the questions of one Batch.
const (
	DefaultWindow = queries.DefaultWindow
	MaxBatch      = queries.MaxBatch
	// MaxPolicyText bounds a policy that is put by API, in bytes.
	MaxPolicyText = admit.MaxText
)

// AsError is err as an *Error: that of the engine or of a context is turned into one.
func AsError(err error) *Error { return request.As(err) }

// Clip keeps an echo of a caller's own words short.
func Clip(s string) string { return request.Clip(s) }

// OpenWarnings begins to send warnings (limits.OpenWarnings), signed with a secret that ParseWarningSecret read.
func OpenWarnings(cfg WarningsConfig) *Warnings { return limits.OpenWarnings(cfg) }

// ParseWarningSecret reads the secret that warnings are signed with (limits.ParseSecret).
func ParseWarningSecret(text string) ([]byte, error) { return limits.ParseSecret(text) }

// CheckKey is what is wrong with a key; nil: nothing (request.ParseKey).
func CheckKey(key string) *Rejection { return request.ParseKey(key) }

// CheckHitKey is CheckKey for a key that is hit (request.ParseHitKey).
func CheckHitKey(key string) *Rejection { return request.ParseHitKey(key) }

// ParseCount reads how many hits (request.ParseCount).
func ParseCount(text string) (uint64, *Rejection) { return request.ParseCount(text) }

// ParseAt reads the time of a hit, of which it keeps no part (request.ParseAt).
func ParseAt(text string) (time.Time, *Rejection) { return request.ParseAt(text) }

// ParseWindow reads the window of a question, which field names (request.ParseWindow).
func ParseWindow(field, text string) (time.Duration, error) { return request.ParseWindow(field, text) }

// ParseTime reads the time of a question, which field names; "" is the zero time, which stands for now (request.ParseTime).
func ParseTime(field, text string) (time.Time, error) { return request.ParseTime(field, text) }

// ParseAgo is ParseTime that also takes a duration before now, -365d (request.ParseAgo).
func ParseAgo(field, text string, now time.Time) (time.Time, error) {
	return request.ParseAgo(field, text, now)
}

// ParseScope reads whose hits a question is about; "" is the default (request.ScopeOf).
func ParseScope(text string) (Scope, error) { return request.ScopeOf(text) }

// ParseByRegion tells whether an answer is to have the part of each region: region, or "" (request.ParseByRegion).
func ParseByRegion(text string) (bool, error) { return request.ParseByRegion(text) }

// ParseFresh reads how long a question waits for a fresh answer; "" is 0, not at all (request.ParseFresh).
func ParseFresh(text string) (time.Duration, error) { return request.ParseFresh(text) }

// CallerAt is the client of a connection, by its remote address host:port.
func CallerAt(remote string) Caller { return access.CallerAt(remote) }

// OpenToOthers tells whether other machines may reach an address that a door listens on.
func OpenToOthers(addr string) bool { return access.OpenToOthers(addr) }

// NewTokens locks a service with a Set that no file is followed for.
func NewTokens(set *auth.Set) *Tokens { return access.NewTokens(set) }

// ReadTokens reads the tokens file for the first time (access.ReadTokens).
func ReadTokens(path string) (*Tokens, error) { return access.ReadTokens(path) }

// ReadPolicyFile reads the policy file for the first time (access.ReadPolicyFile).
func ReadPolicyFile(path string) (*PolicyFile, *policy.Set, error) {
	return access.ReadPolicyFile(path)
}

// OpenKept reads the policies that were put by API (access.OpenKept).
func OpenKept(ctx context.Context, store backend.Document, live *admit.Live, first bool, log *slog.Logger) (*KeptPolicies, error) {
	return access.OpenKept(ctx, store, live, first, log)
}

// Fingerprint tells requests under the same idempotency key apart, by their content and the kind that it is written
// in (ingest.Fingerprint).
func Fingerprint(kind byte, content []byte) uint64 { return ingest.Fingerprint(kind, content) }

// Refunded is by how many more requests may pass after a Refund (limits.Refunded).
func Refunded(made []admit.Changed) uint64 { return limits.Refunded(made) }

// Milliseconds rounds up: who waits for so long has waited long enough.
func Milliseconds(d time.Duration) time.Duration { return limits.Milliseconds(d) }
