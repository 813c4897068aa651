package replication

// Delta is what one key adds to a batch: N hits in the second At, or with N = 0
// the key's removal from memory on request.
type Delta struct {
	Key string
	At  int64 // Unix seconds
	N   uint64
}

// Admission is what a batch has of a limit that survives a restart, or that other
// nodes count too: N admissions of a key, none later than At. Limit is the limit
// itself, in bytes that only an engine reads: a restart counts admissions before
// anybody has said what the limits are now.
type Admission struct {
	Limit string
	Key   string
	At    int64 // Unix ms, by the clock of the node that admitted
	N     uint64
}

// Cut is what a partition gathered since the cut before.
type Cut struct {
	Deltas      []Delta     // in the order in which they settled; a key and second may repeat
	Past        []Delta     // hits for history alone (Cuts.TakePast), after the removals of Deltas
	PastRemoved []Delta     // and those before them, of keys that were removed since
	Admissions  []Admission // of limits that survive a restart
	State       []byte      // the partition after all these, if asked for: see Engine.LoadState
}

// Followed is what a journal has of a partition at one place. Only one field is set.
type Followed struct {
	Deltas  []Delta     // as of Engine.Apply
	Windows []KeyWindow // as of Engine.MergeWindows
	Evicted []Evicted   // as of Engine.MergeEvicted
	Clear   bool        // all hits before it are gone
}
