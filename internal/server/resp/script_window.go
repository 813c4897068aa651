package resp

import (
	"math"
	"slices"

	"github.com/weir-counter/weir/internal/engine/counters"
)

// windowScript describes a script of a fixed window: each request adds to a counter, which expires. Libraries differ in
// what they add, in when the time of the window begins, and in what they reply. Fields with the number of an argument
// count from 1, as in Lua; 0 is none.
type windowScript struct {
	library, sha string

	by    int   // argument: what is added; none: 1
	life  int   // argument: the length of the window
	unit  int64 // unit of the length, in milliseconds; 0: 1
	when  windowBegin
	again int // argument: "1" or "true" if each request begins the time again
	over  int // argument: again and backoff apply only beyond this number of requests

	backoff int // argument: "true" if each request beyond over doubles the time
	extend  int // argument: the seconds added each time that the points (extendPoints) are used up
	reply   windowReply
	ban     int // argument: the client is banned beyond over by more than this; -1: never
}

// extendPoints is the argument with the points of a window that gets longer. Such scripts have extendArgs arguments.
const (
	extendPoints = 3
	extendArgs   = 4
)

// windowBegin says when the time of a window begins.
type windowBegin uint8

const (
	whenEndless      windowBegin = iota // if the counter would never expire
	whenFirst                           // if the value is what was just added
	whenNew                             // if there was no counter
	whenEndlessFrom0                    // if the counter would never expire; it then starts from 0
)

// windowReply says what a script replies.
type windowReply uint8

const (
	valueAndLeft windowReply = iota // the value, and the milliseconds until the window ends (-1: never)
	valueAlone
)

// windowScripts returns the scripts of fixed windows.
func windowScripts() (list []*Script) {
	const (
		flexible = "rate-limiter-flexible 2 to 11 (RateLimiterRedis, RateLimiterValkey)"
		express  = "rate-limit-redis 3 to 6"
		fastify  = "@fastify/rate-limit 8 to 11"
		ulule    = "ulule/limiter 3"
	)
	for _, w := range []windowScript{
		{library: flexible, sha: "a1de965f42e177aa339706bd580f049065eca79a", by: 1, life: 2, unit: 1000},
		{library: flexible, sha: "0aa93fe6a34317527000a66828426c0ae2104618", by: 1, life: 2, unit: 1000, when: whenNew},
		{library: flexible, sha: "e58c658ffd9121cefbe4126943acb7e66217b298", by: 1, life: 2, unit: 1000, extend: 4},
		{library: flexible, sha: "c2fdffe4a536a8702377ddcc0c4aa92fbfc65f7e", by: 1, life: 2, unit: 1000, extend: 2},
		{library: flexible, sha: "4546c8b16229871fca8aee7a5a748fa8945ea24a", by: 1, life: 2, unit: 1000, extend: 4},
		{library: express, sha: "3f424a504987d231baa2e19159bb5def8ad32f87", life: 2, again: 1},
		{library: express, sha: "b829ec02dca78a148dfc75dd3c86f488ed007c68", life: 2, again: 1},
		{library: express, sha: "81dbecea94d2d10514719b20ed51faf711529d9d", life: 2, again: 1, when: whenEndlessFrom0},
		{library: express, sha: "895b92e1712734e1b464999be23953485475357b", life: 1, when: whenEndlessFrom0},
		{library: fastify, sha: "3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", life: 1, over: 2, ban: 3, again: 4},
		{library: fastify, sha: "f80d0c65a05e27559602a2b43fbe989df31fc5f6", life: 1, over: 2, again: 3},
		{library: fastify, sha: "b72d57bf75a045b8d6f72ca5b553e356583723f0", life: 1, over: 2, again: 3, backoff: 4},
		{library: fastify, sha: "b8a19d47785922bb04e7a9fdb49e90d89be1b8af", life: 1, over: 2, again: 3, backoff: 4, when: whenFirst},
		{library: ulule, sha: "f74233f556d3f99c50b61169cf8aa8d5deb63fb2", by: 1, life: 2, when: whenFirst},
		{library: pythonLimits, sha: "628bd136a573a06b346879695681af12ccef300f", by: 2, life: 1, unit: 1000, when: whenFirst, reply: valueAlone},
		{library: pythonLimits, sha: "ab9a35aa62ed8fa50cf1c655a522698512c9b126", life: 1, unit: 1000, when: whenFirst, reply: valueAlone},
		{library: upstashRatelimit, sha: "b13943e359636db027ad280f1def143f02158c13", by: 2, life: 1, when: whenFirst, reply: valueAlone},
		{library: upstashRatelimit, sha: "c26b12703dd137939b9a69a3a9b18e906a2d940f", by: 2, life: 1, when: whenFirst, reply: valueAlone}, // cached: see docs/resp.md
		{library: upstashRatelimit, sha: "1861a700bafe96c833a483af6b1c28a8897cfdb0", by: 2, life: 1, when: whenFirst, reply: valueAlone},
	} {
		args := max(w.by, w.life, w.again, w.over, w.backoff, w.ban)
		if w.extend > 0 {
			args = extendArgs
		}
		list = append(list, &Script{
			library: w.library, SHA: w.sha, keys: 1, args: args, holds: true,
			run: func(s *session, keys, args [][]byte) error { return s.window(&w, keys[0], args) },
		})
	}
	return append(list,
		&Script{library: express, SHA: "6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", keys: 1, holds: true, run: (*session).expressLeft},
		&Script{library: fastify, SHA: "4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc", keys: 1, holds: true, run: windowLeft(0)},
		&Script{library: ulule, SHA: "566f5c6a17e5fddb9a10bf389f754edd0d899c61", keys: 1, holds: true, run: windowLeft(-1)},
		&Script{library: pythonLimits, SHA: "f2994557f1daca13bfef97c2a31ca4b174e031ca", keys: 1, pattern: true, run: (*session).clearKeys},
		&Script{library: "throttled 2 (goredisstore, redigostore)", SHA: "ebd682e30de074a6919bde872b507734c7c3ebe5", keys: 1, args: 3, holds: true, run: (*session).compareAndSwap},
	)
}

// windowNumbers are the arguments of a window.
type windowNumbers struct{ by, life, over, extend, points, ban int64 }

func (w *windowScript) read(args [][]byte) (n windowNumbers, err error) {
	n.by = 1
	points := 0
	if w.extend > 0 {
		points = extendPoints
	}
	for _, one := range []struct {
		place int
		to    *int64
	}{{w.by, &n.by}, {w.life, &n.life}, {w.over, &n.over}, {w.extend, &n.extend}, {points, &n.points}, {w.ban, &n.ban}} {
		if one.place > 0 {
			if *one.to, err = ArgumentInt(args[one.place-1]); err != nil {
				return n, err
			}
		}
	}
	unit := max(w.unit, 1)
	if n.life < 1 || n.life > math.MaxInt64/2/unit || n.extend > math.MaxInt64/4/1000 || n.extend < 0 {
		return n, ErrExpireTime
	}
	n.life *= unit
	return n, nil
}

// isTrue reports whether the argument at a place (from 1; 0 is none) means true.
func isTrue(args [][]byte, place int) bool {
	return place > 0 && (string(args[place-1]) == "1" || string(args[place-1]) == "true")
}

// window counts one request in a fixed window.
func (s *session) window(w *windowScript, key []byte, args [][]byte) error {
	n, err := w.read(args)
	if err != nil {
		return err
	}
	before, existed := s.counters.Get(s.millis, key)
	endless := before.Expires == 0
	if w.when == whenEndlessFrom0 && endless && existed && before.Log == nil {
		s.counters.Remove(s.millis, key)
	}
	value, err := s.counters.Add(s.millis, key, n.by)
	if err != nil {
		return CounterFailure(err)
	}
	begins := endless
	switch w.when {
	case whenFirst:
		begins = value == n.by
	case whenNew:
		begins = !existed
	}
	beyond := w.over == 0 || value > n.over
	left, changed := before.Expires-s.millis, true
	switch {
	case begins, beyond && isTrue(args, w.again):
		left = n.life
	case beyond && isTrue(args, w.backoff):
		left = int64(min(float64(n.life)*math.Pow(2, float64(value-n.over-1)), 1<<53-1))
	case w.extend > 0 && existed && n.points > 0 && (value-1)%n.points == 0:
		left = min(left+n.extend*1000, math.MaxInt64/4)
	default:
		changed = false
		if endless {
			left = -1
		}
	}
	if changed {
		s.counters.Expire(s.millis, key, max(s.millis+left, 1), counters.Always)
	}
	switch {
	case w.reply == valueAlone:
		s.out.Int(value)
	case w.ban > 0:
		s.out.Array(3)
		s.out.Int(value)
		s.out.Int(left)
		s.writeTrue(n.ban != -1 && value-n.over > n.ban)
	default:
		s.out.Ints(value, left)
	}
	return nil
}

// writeTrue writes Lua's true or false as a reply.
func (s *session) writeTrue(b bool) {
	if b {
		s.out.Int(1)
	} else {
		s.out.Null()
	}
}

func (s *session) millisLeft(c counters.Counter, ok bool) int64 {
	switch {
	case !ok:
		return -2
	case c.Expires == 0:
		return -1
	}
	return c.Expires - s.millis
}

// expressLeft replies with the results of GET and PTTL.
func (s *session) expressLeft(keys, _ [][]byte) error {
	c, ok := s.counters.Get(s.millis, keys[0])
	if c.Log != nil {
		return errWrongType
	}
	s.out.Array(2)
	_ = s.writeValue(c, ok) // a log is none
	s.out.Int(s.millisLeft(c, ok))
	return nil
}

// windowLeft returns a script that replies with the count and the milliseconds until the window ends: 0 and 0 if there
// is no counter, and endless if it never expires.
func windowLeft(endless int64) func(s *session, keys, args [][]byte) error {
	return func(s *session, keys, _ [][]byte) error {
		switch c, ok := s.counters.Get(s.millis, keys[0]); {
		case !ok:
			s.out.Ints(0, 0)
		case c.Log != nil:
			return errWrongType
		case c.Expires == 0:
			s.out.Ints(c.Value, endless)
		default:
			s.out.Ints(c.Value, s.millisLeft(c, ok))
		}
		return nil
	}
}

// clearKeys removes the counters whose keys match a pattern, and replies with their number.
func (s *session) clearKeys(keys, _ [][]byte) error {
	n, err := s.removeAll(keys[0], "")
	return s.number(uint64(n), err)
}

// compareAndSwap sets a counter to the second argument if its value is the first one. The third argument is the seconds
// until it expires. The library throttled keeps a time in such a counter.
func (s *session) compareAndSwap(keys, args [][]byte) error {
	numbers, err := readInts(args[:2])
	if err != nil {
		return err
	}
	var life Lifetime
	if _, err := life.Read([]byte("EX"), args[2:], s.millis); err != nil {
		return err
	}
	c, ok := s.counters.Get(s.millis, keys[0])
	switch {
	case !ok:
		return NewReplyError("ERR", "key does not exist")
	case c.Log != nil:
		return errWrongType
	}
	same := c.Value == numbers[0]
	if same {
		if _, err := s.put(keys[0], counters.Setting{Counter: counters.Counter{Value: numbers[1], Expires: life.At}}); err != nil {
			return err
		}
	}
	s.writeBool(same)
	return nil
}

const pythonLimits = "Python's limits 2 to 5 (fixed window, moving window)"

// logScripts returns the scripts of sliding windows that keep the time of each request, by the client's clock.
func logScripts() []*Script {
	const async = "async-ratelimiter 1.5 and 1.6 (koa-ratelimit 5 and 6)"
	list := []*Script{
		{library: async, SHA: "51d8e63a380bf7a715e9cc96b2fa6ad9e2e8788b", keys: 1, args: 3, holds: true, run: (*session).asyncLog},
		{library: async, SHA: "ad00ff6f099013f2aea94ed48c220cbf616c6a07", keys: 1, args: 4, holds: true, run: (*session).asyncLog},
	}
	for _, sha := range []string{
		"d19f37c18768a509dbf1310a257bfc35be65609f", "bec85d5af0739203306474d2cac591c3d6f907d2",
		"19c9778cd6391e2ee9f90aa518bf56256d15b4ae", "741eab638ba93ed71020bb821c45c022d0fa02c4",
	} {
		list = append(list, &Script{library: pythonLimits, SHA: sha, keys: 1, args: 4, holds: true, run: (*session).movingAcquire})
	}
	for sha, version := range map[string]movingWindow{
		"3136f0028c572d2959b5cdc5ec15b287fab6a9ff": {newest: true, more: 1, whole: true},
		"bf95c654b6be0a54713252ef2362a25546faf877": {more: 1, whole: true},
		"f2ef2962263bbe72f66f5bbd0da234e74d880068": {more: 1},
		"ad795214f59fe26d6fdec07973836dd16586f5ec": {},
	} {
		list = append(list, &Script{
			library: pythonLimits, SHA: sha, keys: 1, args: 2, holds: true,
			run: func(s *session, keys, args [][]byte) error { return s.movingWindow(version, keys[0], args) },
		})
	}
	return list
}

// timeLog returns the counter of a key, which has a log if it exists.
func (s *session) timeLog(key []byte) (counters.Counter, error) {
	c, ok := s.counters.Get(s.millis, key)
	if ok && c.Log == nil {
		return c, errWrongType
	}
	return c, nil
}

// maxLogTime bounds times and lengths of windows, so that a float64 holds whole numbers exactly.
const maxLogTime = 1 << 53

// readLogNumbers reads arguments that need not be whole.
func readLogNumbers(args [][]byte) (numbers [4]float64, err error) {
	for i, arg := range args {
		if numbers[i], err = readNumber(arg); err != nil {
			return numbers, err
		}
		if numbers[i] > maxLogTime {
			return numbers, ErrNotInteger
		}
	}
	return numbers, nil
}

// asyncLog takes the time, the length of the window in the same unit, the most requests in it, and "1" to add nothing.
// It replies with three numbers. The first is how many requests could be added before this one. The second is when the
// oldest leaves the window, in thousands of the unit. The third is the most. Two requests at the same time count once.
func (s *session) asyncLog(keys, args [][]byte) error {
	numbers, err := readLogNumbers(args[:3])
	if err != nil {
		return err
	}
	now, length, most := numbers[0], numbers[1], int64(numbers[2])
	peek := len(args) > 3 && string(args[3]) == "1"
	c, err := s.timeLog(keys[0])
	if err != nil {
		return err
	}
	times := c.Log.After(now - length)
	left, first, expires := most-int64(len(times)), now, c.Expires
	if len(times) > 0 {
		first = times[0]
	}
	if left > 0 && !peek {
		expires = s.millis + int64(math.Ceil(length))
		if at, there := slices.BinarySearch(times, now); !there {
			times = slices.Insert(times, at, now)
		}
	}
	if err := s.counters.SetLog(s.millis, keys[0], times, expires); err != nil {
		return CounterFailure(err)
	}
	s.out.Ints(max(left, 0), int64(math.Floor((first+length)/1000)), most)
	return nil
}

// movingAcquire takes the time, the most requests in a window, its length in seconds (also the unit of the time), and
// how many to add. It replies 1 if they were added, else null.
func (s *session) movingAcquire(keys, args [][]byte) error {
	numbers, err := readLogNumbers(args[:4])
	if err != nil {
		return err
	}
	now, most, length, n := numbers[0], int(numbers[1]), numbers[2], int(numbers[3])
	c, err := s.timeLog(keys[0])
	if err != nil {
		return err
	}
	may := n <= most && len(c.Log.From(now-length)) <= most-n
	if may && n > 0 {
		kept := c.Log.After(math.Inf(-1))
		kept = kept[max(0, len(kept)+n-most):]
		if n > counters.MaxLogTimes {
			return CounterFailure(counters.ErrLogFull)
		}
		at, _ := slices.BinarySearch(kept, math.Nextafter(now, math.Inf(1)))
		kept = slices.Insert(kept, at, slices.Repeat([]float64{now}, n)...)
		if err := s.counters.SetLog(s.millis, keys[0], kept, s.millis+int64(math.Ceil(length*1000))); err != nil {
			return CounterFailure(err)
		}
	}
	s.writeTrue(may)
	return nil
}

// movingWindow says how a version of limits replies when asked for the state of a window.
type movingWindow struct {
	newest bool  // the reply has the time of the last request in place of the first
	more   int64 // how many requests it looks at beyond the most in a window
	whole  bool  // times are cut to whole seconds, and the reply is empty for none
}

// movingWindow takes the beginning of a window and the most requests in it. It replies with the time of the first
// request and the number of requests.
func (s *session) movingWindow(version movingWindow, key []byte, args [][]byte) error {
	numbers, err := readLogNumbers(args[:2])
	if err != nil {
		return err
	}
	c, err := s.timeLog(key)
	if err != nil {
		return err
	}
	times := c.Log.From(numbers[0])
	times = times[max(0, len(times)-int(numbers[1])-int(version.more)):]
	switch {
	case len(times) == 0 && version.whole:
		s.out.Array(0)
		return nil
	case len(times) == 0:
		s.out.Null()
		return nil
	}
	s.out.Array(2)
	at := times[0]
	if version.newest {
		at = times[len(times)-1]
	}
	if version.whole {
		s.out.Int(int64(at))
	} else {
		s.writeNumber(at)
	}
	s.out.Int(int64(len(times)))
	return nil
}
