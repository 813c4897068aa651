package certs

import (
	"context"
	"errors"
	"time"
)

// watchEvery is how often Watch looks at the files.
const watchEvery = time.Second

// Watch puts renewed files to use until ctx ends: it looks once a second whether they have other
// content, and at once for each value from reload. report is called from Watch's goroutine: with
// nil when other files are in use, else with what is wrong, once for each fault. A certificate and
// its key are rarely renewed at one instant: a pair that does not fit is looked at
// again before it is a fault.
func (s *Store) Watch(ctx context.Context, reload <-chan struct{}, report func(error)) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	told, before := "", ""
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-reload:
			asked = true
		}
		is, err := s.read()
		switch {
		case err != nil:
			if text := err.Error(); asked || text == before && text != told {
				told = text
				s.wrong.Store(true)
				report(errors.Join(err, errors.New("the certificates in use stay until the files are corrected")))
			}
			before = err.Error()
			continue
		case is.content != s.now.Load().content || told != "":
			s.now.Store(is)
			s.wrong.Store(false)
			report(nil)
		}
		told, before = "", ""
	}
}
