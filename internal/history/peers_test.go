package history

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history/store"
)

// A file is copied only from a node whose gaps are fewer, and within this node's: others would lose hits. A node that has not read
// as much of the journal knows fewer gaps only for that reason.
func TestFilesThatAreBetter(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{URL: "sqlite:" + t.TempDir() + "/history.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := &peers{Others: &Others{states: map[string]peerState{}}, origin: "own", h: &History{store: s, writer: NewWriter(WriterConfig{Retention: 30 * 24 * time.Hour})}}
	now := time.Now()
	const hour, day, changed = 3600, 24 * 3600, 7
	for name, c := range map[string]struct {
		own, other []span
		known      uint64
		better     bool
	}{
		"new, and a complete one":                             {[]span{always}, nil, changed, true},
		"new, and one with a gap":                             {[]span{always}, []span{{hour, 9 * hour}}, changed, true},
		"both are new":                                        {[]span{always}, []span{always}, changed, false},
		"the same gap":                                        {[]span{{hour, 9 * hour}}, []span{{hour + 60, 9*hour + 90}}, changed, false},
		"a gap of seconds":                                    {[]span{{hour, hour + 9}}, nil, changed, false},
		"one gap less":                                        {[]span{{hour, 9 * hour}, {20 * hour, 24 * hour}}, []span{{hour - 5, 9*hour + 5}}, changed, true},
		"a shorter gap at another time":                       {[]span{{hour, 9 * hour}}, []span{{20 * hour, 24 * hour}}, changed, false},
		"a shorter gap, half within this one's":               {[]span{{hour, 9 * hour}}, []span{{7 * hour, 11 * hour}}, changed, false},
		"one that is not as far":                              {[]span{{0, 9 * hour}}, nil, changed - 1, false},
		"began with snapshots, after a backup was restored":   {[]span{{0, 900 * day}}, []span{{890 * day, 920 * day}}, changed, true},
		"began with snapshots, before a backup was restored":  {[]span{{0, 900 * day}}, []span{{895 * day, 940 * day}}, changed, false},
		"a backup was restored, and one began with snapshots": {[]span{{890 * day, 920 * day}}, []span{{0, 900 * day}}, changed, false},
	} {
		other := peerState{origin: "other", asOf: 1, known: c.known, journals: 1, gaps: c.other}
		decoded, ok := decodeState(other.encode())
		if !ok || !slices.Equal(decoded.gaps, c.other) {
			t.Errorf("%s: %+v was read as %+v", name, other, decoded)
		}
		p.take(other.encode(), now)
		if list := p.better(peerState{origin: "own", gaps: c.own}, changed, now); len(list) > 0 != c.better {
			t.Errorf("%s: %+v", name, list)
		}
	}
}
