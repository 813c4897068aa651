package history

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history/store"
)

// A file is copied only from a node whose gaps are fewer, and within this node's: others would lose hits.
func TestFilesThatAreBetter(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{URL: "sqlite:" + t.TempDir() + "/history.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := &peers{Others: &Others{states: map[string]peerState{}}, origin: "own", h: &History{store: s}}
	now := time.Now()
	const hour = 3600
	for name, c := range map[string]struct {
		own, other []span
		better     bool
	}{
		"new, and a complete one":               {[]span{always}, nil, true},
		"new, and one with a gap":               {[]span{always}, []span{{hour, 9 * hour}}, true},
		"both are new":                          {[]span{always}, []span{always}, false},
		"the same gap":                          {[]span{{hour, 9 * hour}}, []span{{hour + 60, 9*hour + 90}}, false},
		"a gap of seconds":                      {[]span{{hour, hour + 9}}, nil, false},
		"one gap less":                          {[]span{{hour, 9 * hour}, {20 * hour, 24 * hour}}, []span{{hour - 5, 9*hour + 5}}, true},
		"a shorter gap at another time":         {[]span{{hour, 9 * hour}}, []span{{20 * hour, 24 * hour}}, false},
		"a shorter gap, half within this one's": {[]span{{hour, 9 * hour}}, []span{{7 * hour, 11 * hour}}, false},
	} {
		other := peerState{origin: "other", asOf: 1, journals: 1, gaps: c.other}
		decoded, ok := decodeState(other.encode())
		if !ok || !slices.Equal(decoded.gaps, c.other) {
			t.Errorf("%s: %+v was read as %+v", name, other, decoded)
		}
		p.take(other.encode(), now)
		if list := p.better(peerState{origin: "own", gaps: c.own}, now); len(list) > 0 != c.better {
			t.Errorf("%s: %+v", name, list)
		}
	}
}
