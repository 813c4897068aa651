package api

import "time"

// RestoreMode says what becomes of the counts that a server has.
type RestoreMode string

// What a backup does to the counts that are there.
const (
	Merge   RestoreMode = "merge"   // it is added; the same backup counts once
	Replace RestoreMode = "replace" // the counts become those of the backup
)

// Restored is what became of a backup.
type Restored struct {
	Mode   RestoreMode `json:"mode" enum:"merge,replace"`
	Taken  int64       `json:"taken" doc:"When the backup was taken, Unix seconds."`
	Again  bool        `json:"again" doc:"It was merged before as a whole: nothing was done."`
	Keys   uint64      `json:"keys" doc:"How many keys' windows were written."`
	Origin string      `json:"origin" doc:"Under which the backup is in the journal."`
}

// TakenAt is Taken as a time.
func (r Restored) TakenAt() time.Time { return time.Unix(r.Taken, 0) }
