package api

// StatsAnswer is what a server holds and what it dropped.
type StatsAnswer struct {
	Version      string `json:"version"`
	UptimeS      int64  `json:"uptime_s" doc:"Whole seconds since the start."`
	Now          Time   `json:"now" doc:"What questions without a time are asked at."`
	Hits         uint64 `json:"hits" doc:"Hits counted, late ones included, and decisions of limits not."`
	Late         uint64 `json:"late" doc:"Hits counted that were older than the newest of their key."`
	TooLate      uint64 `json:"too_late" doc:"Hits not counted: older than the retention."`
	ForHistory   uint64 `json:"for_history,omitempty" doc:"Hits older than the retention, which the history has and no window: not among hits."`
	TooFarAhead  uint64 `json:"too_far_ahead" doc:"Hits refused: too far in the future."`
	Quarantined  uint64 `json:"quarantined" doc:"Hits of other nodes, snapshots or older lives, minutes and more ahead of this node's clock: they count when their second comes."`
	Newest       *Time  `json:"newest,omitempty" doc:"The newest hit; absent when there is none."`
	Keys         int    `json:"keys"`
	HotKeys      int    `json:"hot_keys" doc:"Keys that keep slots instead of single hits."`
	EvictedKeys  uint64 `json:"evicted_keys" doc:"Keys dropped to keep the memory budget."`
	EvictedHits  uint64 `json:"evicted_hits" doc:"Hits that left with them."`
	ExpiredKeys  uint64 `json:"expired_keys" doc:"Keys dropped because all their hits were older than the retention."`
	MemoryBytes  int64  `json:"memory_bytes" doc:"Memory of the keys, as the budget counts it."`
	MemoryBudget int64  `json:"memory_budget_bytes"`
	Partitions   int    `json:"partitions"`

	LimitStates  int    `json:"limit_states" doc:"Keys with limits in use, counted for each limit, and some that are no longer."`
	LimitBytes   int64  `json:"limit_bytes" doc:"Memory of these, as the budget of limits counts it."`
	LimitRefused uint64 `json:"limit_refused" doc:"Requests that no limit was asked for: the memory of limits was full of limits in use."`

	Durable bool          `json:"durable" doc:"Hits are kept on disk: the server is not ephemeral."`
	Waiting int64         `json:"waiting" doc:"Hits that wait for the journal, one for each key and second."`
	Journal *JournalStats `json:"journal,omitempty" doc:"Absent when the server is ephemeral."`
	Alarms  []Alarm       `json:"alarms" nullable:"false" doc:"What is wrong now: empty when nothing is."`
}

// JournalStats is what a server tells of its journal, since its start.
type JournalStats struct {
	Epoch            uint64  `json:"epoch" doc:"The life of the process, counted up at each start."`
	Flushes          uint64  `json:"flushes" doc:"Flushes that are on disk."`
	Bytes            uint64  `json:"bytes" doc:"Bytes of them."`
	FlushSeconds     float64 `json:"flush_s" doc:"Time that the last one took."`
	Failures         uint64  `json:"failures" doc:"Attempts to write a flush that failed; each is retried."`
	Failing          bool    `json:"failing" doc:"The last attempt failed."`
	SnapshotRounds   uint64  `json:"snapshot_rounds" doc:"Rounds in which every partition was snapshotted."`
	ReplayedFlushes  uint64  `json:"replayed_flushes" doc:"Flushes that were read back at the start."`
	LossyFindings    int     `json:"lossy_findings" doc:"Damage that the audit at the start found and that lost hits."`
	HarmlessFindings int     `json:"harmless_findings" doc:"Damage that it found and that lost none."`
}
