package region

import "sync"

// recent has the newest messages of the log, for feeds: the zero recent is ready for use.
type recent struct {
	mu    sync.Mutex
	first uint64 // sequence of list[0]
	list  []entry
	bytes int
}

const (
	recentBytes    = 8 << 20
	recentMessages = 4096
)

// add adds the message after the last one.
func (c *recent) add(sequence uint64, m entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sequence != c.first+uint64(len(c.list)) {
		c.first, c.list, c.bytes = sequence, nil, 0
	}
	c.list, c.bytes = append(c.list, m), c.bytes+len(m.data)
	for len(c.list) > recentMessages || c.bytes > recentBytes && len(c.list) > 1 {
		c.bytes -= len(c.list[0].data)
		c.list[0] = entry{}
		c.first, c.list = c.first+1, c.list[1:]
	}
}

// get is a message; without data it is not kept.
func (c *recent) get(sequence uint64) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sequence < c.first || sequence >= c.first+uint64(len(c.list)) {
		return entry{}
	}
	return c.list[sequence-c.first]
}
