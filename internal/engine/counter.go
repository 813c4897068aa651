package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/window"
)

// Counter counts one thing, for many goroutines. The zero Counter is ready and
// keeps hits for 30 days; it must not be copied.
//
// A hit in the current second takes no lock. Neither does a read of the same window as the read before within that
// second. Other reads take a lock for some nanoseconds.
type Counter struct {
	stripes atomic.Pointer[keyspace.Stripes] // made by the first hit
	wall    keyspace.Wall
	last    lastAnswer
	clock   *keyspace.Clock // of the engine whose AllKeys this is; nil: wall

	mu         sync.Mutex // guards all below
	window     window.Window
	quarantine keyspace.Quarantine // hits of seconds that have not come
}

// NewCounter returns a Counter that keeps hits for at least retention, whole seconds from 1 s to MaxWindow.
func NewCounter(retention time.Duration) (*Counter, error) {
	seconds, err := wholeSeconds("retention", retention)
	if err != nil {
		return nil, err
	}
	w, err := window.New(seconds)
	if err != nil {
		return nil, err
	}
	return &Counter{window: w}, nil
}

// Hit counts one hit now. A caller that hits often does not read the system's clock each time. It still gets the right
// second, unless the machine delays a timer by more than 100 ms.
func (c *Counter) Hit() { c.HitN(1) }

// HitN counts n hits now; n = 0 changes nothing.
func (c *Counter) HitN(n uint64) {
	second := c.wall.Second()
	if s := c.stripes.Load(); s != nil {
		mine := s.Mine() // as in HitAt
		if word := mine.Word.Load(); keyspace.CellFits(word, second, n) && mine.Word.CompareAndSwap(word, word+n) {
			return
		}
	}
	if n > 0 {
		c.hit(second, n)
	}
}

// HitAt counts n >= 1 hits at a time from 1970 to now, in any order of times. TooLate is an outcome, not an error. A
// time more than 5 s after the system's clock is an error, api.CodeTooFarAhead, and changes nothing: it would make all
// later hits too late.
func (c *Counter) HitAt(at time.Time, n uint64) (Outcome, error) {
	second := at.Unix()
	if s := c.stripes.Load(); s != nil && uint64(second) <= window.MaxTime {
		mine := s.Mine() // as stripes.add, which is too large to be inlined
		if word := mine.Word.Load(); keyspace.CellFits(word, second, n) && mine.Word.CompareAndSwap(word, word+n) {
			return keyspace.CellOutcome(word), nil
		}
	}
	return c.hitAt(second, n)
}

// hitAt is HitAt where the live cell does not stand at the second, or another goroutine was quicker.
func (c *Counter) hitAt(second int64, n uint64) (Outcome, error) {
	if err := checkHit(second, n); err != nil {
		return Refused, err
	}
	s := c.ready()
	mine := s.Mine()
	if outcome, ok := s.Add(&mine, second, n); ok {
		return outcome, nil
	}
	if wall := c.wall.Second(); second > wall+counterAhead {
		return Refused, tooFarAhead(second-wall, counterAhead)
	}
	return c.fold(s, mine, second, n), nil
}

// counterAhead is how far after the clock a hit may be, in seconds.
const counterAhead = int64(defaultMaxAhead / time.Second)

func (c *Counter) hit(second int64, n uint64) Outcome {
	s := c.ready()
	mine := s.Mine()
	if outcome, ok := s.Add(&mine, second, n); ok {
		return outcome
	}
	return c.fold(s, mine, second, n)
}

// ready returns the stripes, made if need be.
func (c *Counter) ready() *keyspace.Stripes {
	if s := c.stripes.Load(); s != nil {
		return s
	}
	c.stripes.CompareAndSwap(nil, keyspace.NewStripes())
	return c.stripes.Load()
}

// fold counts n hits at a second where the goroutine's live cell does not stand.
func (c *Counter) fold(s *keyspace.Stripes, mine *keyspace.Cell, second int64, n uint64) Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.change()
	outcome := s.Fold(mine, &c.window, second, n, c.window.Settle)
	if outcome == TooLate && c.quarantineWindow(s) { // the clock has run back
		outcome = s.Fold(s.Mine(), &c.window, second, n, c.window.Settle)
	}
	if !c.quarantine.Empty() {
		c.come()
	}
	return outcome
}

// limit is the last second that a hit may have by now.
func (c *Counter) limit() int64 {
	if c.clock != nil {
		return c.clock.Limit()
	}
	return c.wall.Second() + counterAhead
}

// quarantineWindow quarantines the window if it has seen seconds that have not come yet. The caller holds mu.
func (c *Counter) quarantineWindow(s *keyspace.Stripes) bool {
	limit := c.limit()
	if second, _ := s.Newest(&c.window); second <= limit {
		return false
	}
	s.FoldAll(keyspace.Idle, c.window.Settle)
	none := c.emptyWindow()
	was := c.window
	c.window = none
	c.quarantine.Take(AllKeys, &was, limit)
	return true
}

func (c *Counter) emptyWindow() window.Window {
	none, err := window.New(c.window.Retention())
	if err != nil {
		panic(err) // it is a window's
	}
	return none
}

// come merges quarantined hits whose time has come. The caller holds mu.
func (c *Counter) come() {
	c.quarantine.Come(c.limit(), func(_ string, w *window.Window) { keyspace.MergeQuarantined(&c.window, w) })
}

// settle counts n hits that were accepted before; they are never too late.
func (c *Counter) settle(second int64, n uint64) {
	s := c.ready()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.change()
	if newest, _ := s.Newest(&c.window); second > newest {
		if limit := c.limit(); second > limit {
			none := c.emptyWindow()
			c.quarantine.Settle(&none, AllKeys, second, n, limit)
			return
		}
	}
	c.window.Settle(second, n)
}

// retract takes n hits back that were counted before.
func (c *Counter) retract(second int64, n uint64) {
	s := c.ready()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.change()
	s.FoldAll(keyspace.Idle, c.window.Settle)
	n -= c.window.Retract(second, n)
	c.quarantine.Retract(AllKeys, second, n)
}

// keep looks after what is ahead of the clock; the engine calls it now and then.
func (c *Counter) keep() {
	s := c.ready()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.change()
	if newest, _ := s.Newest(&c.window); newest > c.limit()+keyspace.Near {
		c.quarantineWindow(s)
	}
	c.come()
}

// Count answers how many hits lie in the last w, up to now. Where the window reaches back beyond the retention, no
// upper bound is known: older hits are refused, and those that were taken may have left.
func (c *Counter) Count(w time.Duration) (Count, error) {
	seconds, err := wholeSeconds("window", w)
	if err != nil {
		return Count{}, err
	}
	return c.count(c.wall.Second(), seconds), nil
}

// CountAt answers how many hits lie in (at-w, at]. If at has a fraction of a second, the two seconds that the window
// cuts are in doubt, and the bounds say so.
func (c *Counter) CountAt(at time.Time, w time.Duration) (Count, error) {
	seconds, err := wholeSeconds("window", w)
	if err != nil {
		return Count{}, err
	}
	if at.Nanosecond() == 0 {
		return c.count(at.Unix(), seconds), nil
	}
	return countAt(at, seconds, c.count), nil
}

// Load answers how many hits lie in the last w up to the newest hit: exact for w
// up to 300 s. An empty counter has a load of 0.
func (c *Counter) Load(w time.Duration) (Count, error) {
	seconds, err := wholeSeconds("window", w)
	if err != nil {
		return Count{}, err
	}
	return c.count(c.newest(), seconds), nil
}

// QPS is Load per second of w.
func (c *Counter) QPS(w time.Duration) (Rate, error) {
	load, err := c.Load(w)
	return load.Per(int64(w / time.Second)), err
}

// count counts the window (at-seconds, at]. A Counter of its own gives no upper bound where hits may have left or been
// refused. An engine applies its own horizon.
func (c *Counter) count(at, seconds int64) Count {
	s := c.stripes.Load()
	if s == nil || seconds < 1 {
		return Count{}
	}
	if folded, version, ok := c.last.get(at, seconds); ok {
		live := s.Live(at-seconds, at)
		if c.last.still(version) {
			return folded.Plus(window.Exactly(live))
		}
	}
	return c.countLocked(s, at, seconds)
}

// countLocked is count where the last answer is of another window or of before a change.
func (c *Counter) countLocked(s *keyspace.Stripes, at, seconds int64) Count {
	c.mu.Lock()
	folded := c.window.Count(at, seconds)
	if !c.quarantine.Empty() {
		folded = folded.Plus(c.quarantine.Count(AllKeys, at, seconds))
	}
	live, newest := s.Read(at-seconds, at)
	if c.clock == nil {
		folded = c.known(folded, newest, at, seconds)
	}
	if c.last.missed(at, seconds) {
		c.last.set(at, seconds, folded)
	}
	count := folded.Plus(window.Exactly(live))
	c.mu.Unlock() // last: nothing overlaps with it
	return count
}

// known limits a count to what is known. The newest hit sets the horizon of a Counter, and it changes only with the
// version of last. newest is the second of the newest hit in live cells. The caller holds mu.
func (c *Counter) known(count Count, newest, at, seconds int64) Count {
	folded, _ := c.window.Newest()
	retention := c.window.Retention()
	return horizon{max(newest, folded) - retention, retention, counterAhead}.limits(count, at, seconds)
}

// newest is the second of the newest hit, 0 while there is none.
func (c *Counter) newest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	second, _ := c.window.Newest()
	if s := c.stripes.Load(); s != nil {
		second, _ = s.Newest(&c.window)
	}
	return second
}

// merge adds the hits of a window, which may be ahead of the clock.
func (c *Counter) merge(w *window.Window) error {
	c.ready()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.change()
	limit := c.limit()
	if newest, _ := w.Newest(); newest > limit {
		one := w.Clone()
		c.quarantine.Take(AllKeys, &one, limit)
		return nil
	}
	return c.window.Merge(w)
}

// total is the number of all hits ever counted.
func (c *Counter) total() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := window.Exactly(c.window.Total()).Plus(window.Exactly(c.quarantine.Total(AllKeys)))
	if s := c.stripes.Load(); s != nil {
		count = count.Plus(window.Exactly(s.Live(-1, window.MaxTime)))
	}
	return count.Lower
}

// countAt counts the window (at-w, at] at an instant within a second, with a count of whole seconds. The lower bound is
// the seconds that lie wholly in the window. The upper bound adds the two seconds that the window cuts. The estimate is
// linear between them.
func countAt(at time.Time, seconds int64, count func(at, seconds int64) Count) Count {
	second, fraction := at.Unix(), float64(at.Nanosecond())/1e9
	here := count(second, seconds)
	if fraction == 0 {
		return here
	}
	before := count(second-1, seconds)
	c := Count{
		Lower:    count(second-1, seconds-1).Lower,
		Estimate: uint64(float64(before.Estimate)*(1-fraction) + float64(here.Estimate)*fraction + 0.5),
		Upper:    count(second, seconds+1).Upper,
	}
	c.Estimate = min(max(c.Estimate, c.Lower), c.Upper)
	return c
}
