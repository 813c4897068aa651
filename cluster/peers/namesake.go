package peers

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/journal/replica"
)

// namesake is another process that has this node's name.
type namesake struct {
	origin uint64
	at     time.Time // when it asked last; zero: never
}

// namesakeFor is for how long one is believed to be there after it asked for the time, which all do every 2 s, or
// 100 ms for each node.
const namesakeFor = 30 * time.Second

// heard takes note of a node that asked. A start that finds its name taken ends (member.RefuseNamesake); two get here
// where one of them was silent meanwhile.
func (c *Clocks) heard(origin uint64, node string) {
	if origin == c.Origin || node != c.Node {
		return
	}
	c.mu.Lock()
	known := c.namesake.origin == origin && time.Since(c.namesake.at) < namesakeFor
	c.namesake = namesake{origin, time.Now()}
	c.mu.Unlock()
	if !known {
		c.Log.Error("journal: another node that runs has this one's name: give each node its own --node, and stop one of them", "node", c.Node, "its_origin", fmt.Sprintf("%016x", origin))
	}
}

// namesakeAlarm tells of another node of this name that runs.
func (c *Clocks) namesakeAlarm() (alarms []replica.Alarm) {
	c.mu.Lock()
	is := c.namesake
	c.mu.Unlock()
	if is.at.IsZero() || time.Since(is.at) > namesakeFor {
		return nil
	}
	return []replica.Alarm{{Code: "node_name_twice", Message: fmt.Sprintf(
		"another node that runs is called %s too (its data directory is origin %016x, this one's is %016x), and freshness may miss what one of them took: stop one, and give it its own --node", c.Node, is.origin, c.Origin)}}
}
