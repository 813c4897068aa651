package strict

import (
	"context"
	"sync"
)

// commits are admissions that wait until they are in the journal.
type commits struct {
	some chan struct{}

	mu   sync.Mutex
	list []commit
}

// commit is one, decided under a lease's token.
type commit struct {
	group *group
	token uint64
	tell  func()
}

// maxCommits is how many may wait: some thousand a flush are more than one node can
// decide.
const maxCommits = 10_000

func newCommits() commits { return commits{some: make(chan struct{}, 1)} }

func (c *commits) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list) >= maxCommits
}

func (c *commits) add(one commit) {
	c.mu.Lock()
	c.list = append(c.list, one)
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// take waits for the next ones; nil when ctx is done.
func (c *commits) take(ctx context.Context) []commit {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.some:
		}
		c.mu.Lock()
		list := c.list
		c.list = nil
		c.mu.Unlock()
		if len(list) > 0 {
			return list
		}
	}
}
