package journal

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/replica"
)

// quarantinedFor is for how long after the last hit of a second that is minutes ahead a node
// says so: the hits themselves stay ahead until their time comes.
const quarantinedFor = time.Minute

// quarantineAlarms tells that hits came whose seconds are minutes ahead of this node's clock:
// it, or that of the node which took them, is wrong.
func (j *Journal) quarantineAlarms() []replica.Alarm {
	stats := j.engine.Stats()
	if stats.Quarantined == 0 || j.now().Sub(stats.NewestQuarantined) > quarantinedFor {
		return nil
	}
	return []replica.Alarm{{Code: "hits_quarantined", Message: fmt.Sprintf(
		"%d hits of other nodes or of what was stored are minutes or more ahead of this node's clock, and count when their time comes: a node's clock is or was wrong, set it right (NTP)", stats.Quarantined)}}
}

// now is the time of day, as the engine has it.
func (j *Journal) now() time.Time { return replication.Of(j.engine).Wall() }
