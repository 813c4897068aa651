package history

import (
	"slices"
	"strings"
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

// Two histories that lack different hits are an alarm after a minute, which names both. Times of which both lack hits are none, and neither
// is a file that will be copied.
func TestHistoriesThatDiffer(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Config{URL: "sqlite:" + t.TempDir() + "/history.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	const hour = 3600
	for name, c := range map[string]struct {
		own, other []span
		known      uint64
		differ     bool
	}{
		"the same gap":               {[]span{{hour, 9 * hour}}, []span{{hour + 60, 9*hour + 90}}, 7, false},
		"one has a gap":              {[]span{{hour, 9 * hour}}, nil, 7, false},
		"one has a gap more":         {[]span{{hour, 9 * hour}}, []span{{hour, 9 * hour}, {20 * hour, 24 * hour}}, 7, false},
		"gaps at different times":    {[]span{{hour, 9 * hour}}, []span{{20 * hour, 24 * hour}}, 7, true},
		"gaps that are half shared":  {[]span{{hour, 9 * hour}}, []span{{5 * hour, 24 * hour}}, 7, true},
		"one that is not as far yet": {[]span{{hour, 9 * hour}}, []span{{20 * hour, 24 * hour}}, 6, false},
		"one that is new":            {[]span{{hour, 9 * hour}}, []span{always}, 7, false},
	} {
		h := &History{store: s, writer: NewWriter(WriterConfig{Retention: 30 * 24 * time.Hour}), cfg: Config{NodeOf: func(origin string) string { return map[string]string{"a": "n1", "b": "n2"}[origin] }}}
		h.peers = &peers{Others: &Others{states: map[string]peerState{}}, origin: "a", h: h, measured: true, changed: 7}
		h.peers.file = peerState{gaps: c.own, known: 7, journals: 1}
		other := peerState{origin: "b", asOf: 1, known: c.known, journals: 1, gaps: c.other}
		h.peers.take(other.encode(), now)
		for _, passed := range []time.Duration{-2 * lateAfter, -time.Second} {
			h.peers.compare(peerState{origin: "a", gaps: c.own, journals: 1}, now.Add(passed))
		}
		found := ""
		for _, a := range h.Alarms() {
			if a.Code == "history_differs" {
				found = a.Message
			}
		}
		if found != "" != c.differ || c.differ && !(strings.Contains(found, "n1 and n2") && strings.Contains(found, "1970-01-01T01:00:00Z to 1970-01-01T09:00:00Z")) {
			t.Errorf("%s: %q", name, found)
		}
		h.peers.compare(peerState{origin: "a", gaps: c.own, journals: 1}, now.Add(stateFor+time.Second))
		if h.Alarms() != nil {
			t.Errorf("%s: the other node is not there, and its history differs", name)
		}
	}
}

// Incomplete is why the file of another node could not be copied; nil: it could, or need not be.
func (h *History) Incomplete() error {
	h.peers.mu.Lock()
	defer h.peers.mu.Unlock()
	return h.peers.failed
}
