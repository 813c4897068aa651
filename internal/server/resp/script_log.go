package resp

import (
	"math"
	"slices"

	"github.com/weir-counter/weir/internal/engine/counters"
)

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
