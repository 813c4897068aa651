package backend

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
)

// History is what a Service needs of the totals that are kept for years.
type History interface {
	// Totals are the hits of a key in the spans between bounds, Unix seconds in order, of all
	// hits that were taken until asOf.
	Totals(ctx context.Context, key string, bounds []int64) (totals []HistoryTotal, asOf time.Time, err error)
	// Top are the n keys that begin with prefix which have the most hits in [from, to), Unix seconds, most first, of all hits
	// that were taken until asOf.
	Top(ctx context.Context, prefix string, from, to int64, n int) (keys []HistoryKey, asOf time.Time, err error)
	// Await returns when all hits that were counted before the call are in.
	Await(ctx context.Context) error
	// Forget deletes what is kept of keys, and tells whether there was any.
	Forget(ctx context.Context, keys ...string) (bool, error)
	// Keys are the first keys that begin with prefix, which is not empty, and sort after another.
	Keys(ctx context.Context, prefix, after string, limit int) ([]string, error)
	// Export calls f with the hits of keys, n to n+doubt, in each day of UTC, or slot, that begins
	// at start. from and to are rounded to whole days. An error of f ends it.
	Export(ctx context.Context, prefix string, from, to time.Time, days bool, f func(key string, start int64, n, doubt uint64) error) error
	// Missing says which times between from and to may lack hits, for people; "": none.
	Missing(ctx context.Context, from, to time.Time) (text string, err error)
	// Alarms are what is wrong now. It waits for nobody.
	Alarms() []api.Alarm
	// Stats is called for each scrape.
	Stats() HistoryStats
}

// HistoryTimeout bounds a question to history.
const HistoryTimeout = 5 * time.Second

// HistoryTotal is the hits of a span: at least Lower, and at most Upper if Bounded.
type HistoryTotal struct {
	Lower, Upper uint64
	Bounded      bool
}

// HistoryKey is a key and its hits.
type HistoryKey struct {
	Key string
	HistoryTotal
}

// HistoryStats are the figures of a history.
type HistoryStats struct {
	Known    bool      // how far it is, is known
	AsOf     time.Time // all hits that were taken until then are in
	Message  uint64    // of the journal, up to which it has all
	Unread   uint64    // messages of the journal after it
	Writes   bool      // this node writes it
	Failing  bool      // it does not go on
	Gaps     int       // times, noted in the database, of which hits may be missing
	Rows     uint64    // that this node added to since its start
	Failures uint64    // attempts of this node to go on that failed since its start

	FileBytes, FileBudget int64 // of a file of SQLite, without its log; the budget is 0 where there is none
}
