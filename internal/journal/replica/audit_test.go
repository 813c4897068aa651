package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// messages makes the messages of an epoch: flush by flush, parts of each. Before
// it the partitions had some batches each.
func messages(epoch uint64, before [4]uint64, flushes, parts int) (all [][]byte) {
	e := record.NewEncoder(record.Incarnation{Origin: 1, Epoch: epoch}, 4)
	for p, n := range before {
		e.Seqs[p], e.Totals[p] = n, 10*n
	}
	for range flushes {
		e.Begin(time.Now())
		for p := range parts {
			if e.PartBytes = 0; p == parts-1 { // the last batch is in the part that end closes
				e.PartBytes = record.MaxPartBytes
			}
			e.Add(p%4, []replication.Delta{{Key: "k", At: 100, N: 10}})
		}
		all = append(all, e.End(nil)...)
	}
	return all
}

// Steps of messages, and what the audit must say of them.
func TestAudit(t *testing.T) {
	first, second, third := messages(1, [4]uint64{}, 4, 3), messages(2, [4]uint64{4, 4, 4}, 4, 1), messages(2, [4]uint64{3, 3, 3}, 4, 1)
	join := func(lists ...[][]byte) (all [][]byte) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for name, s := range map[string]struct {
		messages [][]byte
		skip     map[int]bool // messages that the stream lost
		mark     uint64
		hits     uint64
		finding  string // a part of the findings; empty: none
	}{
		"whole":                       {messages: join(first, second), hits: 160},
		"repeated parts":              {messages: join(first[:2], first[1:2], first[2:5], first[3:]), hits: 120},
		"repeated flush":              {messages: join(first[:6], first[3:]), hits: 120},
		"unfinished at the end":       {messages: first[:11], hits: 90},
		"unfinished before an epoch":  {messages: join(first[:11], third), hits: 130},
		"an end that is lost":         {messages: join(first[:9], second), hits: 130, finding: "1 batches missing: 10 hits"},
		"an end that nobody else has": {messages: join(first, third), hits: 160, finding: "goes on after batch 3 in epoch 2, and batch 4 is here"},
		"a lost message":              {messages: join(first, second), skip: map[int]bool{13: true}, hits: 150, finding: "1 batches missing: 10 hits"},
		"a lost part":                 {messages: first, skip: map[int]bool{4: true}, hits: 90, finding: "journal messages 5 to 5: missing"},
		"a lost last part":            {messages: first, skip: map[int]bool{5: true}, hits: 90, finding: "3 batches missing: 30 hits"},
		"a flush left out":            {messages: join(first[:3], first[6:]), hits: 90, finding: "flush 3 of epoch 1 follows flush 1"},
		"cut off":                     {messages: first[:9], mark: 12, hits: 90, finding: "journal messages 10 to 12: cut off"},
		"as far as the mark":          {messages: first, mark: 12, hits: 120},
		"another origin": {messages: join(first, [][]byte{func() []byte {
			e := record.NewEncoder(record.Incarnation{Origin: 9, Epoch: 1}, 4)
			e.Begin(time.Now())
			return e.End(nil)[0]
		}()}), hits: 120, finding: "from origin 9"},
		"an epoch that begins late": {messages: join(first, second[1:]), hits: 150, finding: "flush 2 of epoch 2 follows flush 0"},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAuditor(1, 4)
			var hits uint64
			for i, m := range s.messages {
				if s.skip[i] {
					continue
				}
				parts, err := a.message(uint64(i+1), m)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range parts {
					for _, b := range p.Batches {
						if a.batch(p.Incarnation, b) {
							hits += b.N
						}
					}
				}
			}
			a.End(s.mark, uint64(len(s.messages)))
			var said []string
			for _, f := range a.Findings {
				said = append(said, f.String())
			}
			all := strings.Join(said, "\n")
			if hits != s.hits {
				t.Errorf("%d hits, want %d; %s", hits, s.hits, all)
			}
			if (s.finding == "") != (all == "") || !strings.Contains(all, s.finding) {
				t.Errorf("findings %q, want %q", all, s.finding)
			}
		})
	}
}

// An origin that lost hits of its own begins a life behind what others have of it. Where hits of that life are lost
// too, a snapshot says that some are, whatever the running totals look like.
func TestLostBatchesOfALaterLife(t *testing.T) {
	for name, s := range map[string]struct {
		stated, reached, lost uint64 // the totals before a batch that comes, and of the one before it; what the snapshot says
		seq                   uint64 // of the batch that comes; the last one here is 2
	}{
		"as it should be":         {stated: 10, reached: 10, seq: 3, lost: 0},
		"some are missing":        {stated: 30, reached: 10, seq: 4, lost: 20},
		"more were lost before":   {stated: 8, reached: 10, seq: 4, lost: 1},
		"another batch was there": {stated: 12, reached: 10, seq: 3, lost: 2},
		"a smaller one was":       {stated: 7, reached: 10, seq: 3, lost: 1},
		"it goes on from before":  {stated: 5, reached: 10, seq: 2, lost: 1},
	} {
		a := NewAuditor(1, 1)
		a.batch(record.Incarnation{Origin: 1, Epoch: 1}, record.Batch{Seq: 1, N: 4, Total: 4, Entries: []byte{1}})
		a.batch(record.Incarnation{Origin: 1, Epoch: 1}, record.Batch{Seq: 2, N: s.reached - 4, Total: s.reached, Entries: []byte{1}})
		if !a.batch(record.Incarnation{Origin: 1, Epoch: 2}, record.Batch{Seq: s.seq, N: 3, Total: s.stated + 3, Entries: []byte{1}}) {
			t.Errorf("%s: it is not new", name)
		}
		want := record.Position{Epoch: 2, Seq: s.seq, Total: s.stated + 3, Lost: s.lost}
		if got := a.positionsOf(0, nil)[0].Position; got != want {
			t.Errorf("%s: at %+v, want %+v", name, got, want)
		}
		a.reportMissing()
		if found := len(a.Findings) > 0; found != (s.lost > 0) {
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
}

// Where the batches that are lost are as many, with as many hits, as the life began behind, the running totals fit: a snapshot says all the
// same that hits may be missing.
func TestLostBatchesThatFit(t *testing.T) {
	for _, lost := range []int{0, 1} {
		a := NewAuditor(9, 4)
		a.Alone = false
		count := func(list [][]byte) {
			for _, data := range list {
				parts, err := a.message(a.Stream+1, data)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range parts {
					for _, b := range p.Batches {
						a.batch(p.Incarnation, b)
					}
				}
			}
		}
		count(messages(1, [4]uint64{}, 3, 1))
		count(messages(2, [4]uint64{3 - uint64(lost)}, 3, 1)[lost:])
		want := record.Position{Epoch: 2, Seq: 6 - uint64(lost), Total: 60 - 10*uint64(lost), Lost: uint64(lost)}
		if got := a.positionsOf(0, nil)[0].Position; got != want {
			t.Errorf("%d flushes lost: at %+v, want %+v", lost, got, want)
		}
	}
}
