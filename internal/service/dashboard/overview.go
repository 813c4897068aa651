package dashboard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
)

// now is the window whose mean is the rate of now.
const now = 5 * time.Second

// OverviewQuery asks for the view of all keys.
type OverviewQuery struct {
	Window time.Duration // whole seconds
	N      int           // how many keys
	Prefix string        // only keys that begin with it
}

// OverviewView is the hits of all keys together, and the keys that have most.
func OverviewView(ctx context.Context, s *service.Service, c access.Caller, q OverviewQuery) (api.OverviewAnswer, error) {
	keys, err := q.keys(ctx, s, c)
	if err != nil {
		return api.OverviewAnswer{}, err
	}
	return q.of(ctx, s, c, keys)
}

// OverviewAgain is OverviewView for a page that asks again and again. The list of keys that have most may be of some
// time ago, because it takes long to make; what is counted is of now. All who ask the same, and may read the same, have
// the same name.
func (t *TopsView) OverviewAgain(ctx context.Context, s *service.Service, c access.Caller, q OverviewQuery, name string) (api.OverviewAnswer, error) {
	keys, known, err := t.keys(ctx, name, func(ctx context.Context) ([]string, error) { return q.keys(ctx, s, c) })
	if err != nil {
		return api.OverviewAnswer{}, err
	}
	answer, err := q.of(ctx, s, c, keys)
	answer.Pending = !known
	return answer, err
}

// keys are those that have most hits now.
func (q OverviewQuery) keys(ctx context.Context, s *service.Service, c access.Caller) ([]string, error) {
	top, err := s.Top(ctx, c, queries.TopQuery{Window: q.Window, N: q.N, Prefix: q.Prefix})
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(top.Keys))
	for i, k := range top.Keys {
		keys[i] = k.Key
	}
	return keys, nil
}

// of counts all hits, and these keys.
func (q OverviewQuery) of(ctx context.Context, s *service.Service, c access.Caller, keys []string) (api.OverviewAnswer, error) {
	end := s.Now()
	answer := api.OverviewAnswer{WindowSeconds: int64(q.Window / time.Second), At: api.Time{Time: end}, Keys: []api.KeyView{}}
	divided := partsOf(end, q.Window)
	var questions []api.CountQuestion
	all := s.ReadsAll(c)
	if all {
		questions = divided.append([]api.CountQuestion{
			{Key: engine.AllKeys, At: end, Window: now}, {Key: engine.AllKeys, At: end, Window: q.Window}, {Key: engine.AllKeys, At: end.Add(-q.Window), Window: q.Window},
		}, engine.AllKeys, 0)
	}
	for _, key := range keys {
		questions = divided.append(append(questions, api.CountQuestion{Key: key, At: end, Window: q.Window}, api.CountQuestion{Key: key, At: end.Add(-q.Window), Window: q.Window}), key, 0)
	}
	bounds, fresh, err := s.Batch(ctx, c, questions)
	if err != nil {
		return answer, err
	}
	answer.Freshness = fresh
	if all {
		stats, err := s.Stats(c)
		if err != nil {
			return answer, err
		}
		first := take(&bounds, 3)
		answer.All = &api.AllHits{PerSecond: first[0].Per(int64(now / time.Second)), Hits: first[1], Before: first[2], Keys: stats.Keys, Line: divided.line(&bounds)}
		answer.Alarms = stats.Alarms
	}
	for _, key := range keys {
		two := take(&bounds, 2)
		answer.Keys = append(answer.Keys, api.KeyView{Key: key, Bounds: two[0], Before: two[1], Line: estimates(take(&bounds, divided.len()))})
	}
	slices.SortStableFunc(answer.Keys, func(a, b api.KeyView) int { return cmp.Compare(b.Estimate, a.Estimate) })
	return answer, nil
}

const (
	// patience is how long a view waits for a list that takes long: it shows the one before.
	patience = 50 * time.Millisecond
	// topShare: a list rests for so many times what it took, times the number of lists.
	topShare = 20
	// maxRest is how long a list rests at most.
	maxRest = time.Minute
	// maxMaking bounds the time that a list takes.
	maxMaking = 10 * time.Second
	// maxLists bounds the lists; the one that nobody has asked for longest is dropped.
	maxLists = 256
)

// TopsView are the lists of the keys that have most hits, by what was asked. To find them takes as long as there are keys:
// 0.6 s for a million. A view that is made each second does not wait for that: it counts the keys of the newest list
// there is, while the next is made aside. All lists together take a twentieth of a core. The zero Tops is ready.
type TopsView struct {
	mu      sync.Mutex
	lists   map[string]*topList
	ctx     context.Context // of all that runs; ended by Close
	end     context.CancelFunc
	running sync.WaitGroup
	one     sync.Mutex // held by the list that is being made
}

type topList struct {
	keys  []string
	err   error         // in place of them
	known bool          // there are keys, or an error
	made  chan struct{} // closed when the next list is made; nil: none is being made
	next  time.Time     // when it may be made again
	asked time.Time
}

// Close ends what runs, and returns when it has ended.
func (t *TopsView) Close() {
	t.mu.Lock()
	t.begin()
	t.end()
	t.mu.Unlock()
	t.running.Wait()
}

func (t *TopsView) begin() {
	if t.lists == nil {
		t.lists = map[string]*topList{}
		t.ctx, t.end = context.WithCancel(context.Background())
	}
}

// keys are the newest list of a name; known tells whether there is one yet. ask makes it: asks of one name must make the same.
func (t *TopsView) keys(ctx context.Context, name string, ask func(context.Context) ([]string, error)) (keys []string, known bool, err error) {
	t.mu.Lock()
	t.begin()
	l := t.lists[name]
	if l == nil {
		t.makeRoom()
		l = &topList{}
		t.lists[name] = l
	}
	now := time.Now()
	l.asked = now
	if l.made == nil && !now.Before(l.next) && t.ctx.Err() == nil {
		l.made = make(chan struct{})
		t.running.Go(func() { t.make(l, ask) })
	}
	made := l.made
	t.mu.Unlock()
	if made != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-made:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.keys, l.known, l.err
}

func (t *TopsView) make(l *topList, ask func(context.Context) ([]string, error)) {
	t.one.Lock()
	defer t.one.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, maxMaking)
	defer cancel()
	began := time.Now()
	keys, err := ask(ctx)
	took := time.Since(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	l.keys, l.err, l.known = keys, err, true
	l.next = time.Now().Add(min(maxRest, topShare*took*time.Duration(len(t.lists))))
	close(l.made)
	l.made = nil
}

// makeRoom forgets the list that nobody has asked for longest, if there are too many.
func (t *TopsView) makeRoom() {
	if len(t.lists) < maxLists {
		return
	}
	oldest := ""
	for name, l := range t.lists {
		if oldest == "" || l.asked.Before(t.lists[oldest].asked) {
			oldest = name
		}
	}
	delete(t.lists, oldest)
}
