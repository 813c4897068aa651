package resp

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine/counters"
)

// This file does natively what the Lua scripts of rate limit libraries do. There is no Lua: a script is recognized by
// the SHA-1 of its text. docs/resp.md lists libraries and versions.
//
// Invariants. A script of counters is one atomic step for the keys that it names. A script of limits makes the same
// decisions as other commands. The reply is what the library expects.
//
// The commands EVAL, EVALSHA and SCRIPT are in transaction.go. The tests of bench/listeners run the libraries
// themselves, and so find a text that a new version has changed.

// Script is a script that a library of limits sends to Redis.
type Script struct {
	SHA     string // SHA-1 of its text: 40 hexadecimal digits in lower case
	library string // the library that sends it, for people

	keys, args int    // the least numbers of both
	extraKey   bool   // one more key may follow, of another counter
	suffix     string // the first key with this suffix names a counter too
	holds      bool   // the counters of its keys are held while it runs
	pattern    bool   // its key is a pattern of counters, which it removes

	run func(s *session, keys, args [][]byte) error
}

// all returns all known scripts.
func all() []*Script {
	return slices.Concat(redisRateScripts(), traefikScripts(), windowScripts(), logScripts(), upstashScripts())
}

// Run does what a script does, and writes its reply. args are the number of keys, the keys, and the arguments. After an
// error nothing is written.
func (known *Script) Run(s *session, args [][]byte) error {
	sent := args
	n, ok := ParseInt(args[0])
	args = args[1:]
	switch {
	case !ok:
		return ErrNotInteger
	case n < 0:
		return NewReplyError("ERR", "Number of keys can't be negative")
	case n > int64(len(args)):
		return NewReplyError("ERR", "Number of keys can't be greater than number of args")
	}
	keys, args := args[:n], args[n:]
	if len(keys) < known.keys || len(args) < known.args {
		return NewReplyError("ERR", "the script of "+known.library+" was sent with too few keys or arguments")
	}
	most := known.keys
	if known.extraKey && len(keys) > most && len(keys[most]) > 0 {
		most++
	}
	keys = keys[:most]
	if !known.holds && !known.pattern {
		s.deliver()
		return known.run(s, keys, args)
	}
	used := keys
	if known.suffix != "" {
		used = append(slices.Clip(keys), append(bytes.Clone(keys[0]), known.suffix...))
	}
	if known.pattern {
		used = [][]byte{keyPattern(keys[0]).prefix()}
	}
	if err := s.permitCounters(used); err != nil {
		return err
	}
	if s.forwards() {
		return s.forward(append([][]byte{[]byte("EVALSHA"), []byte(known.SHA)}, sent...)...)
	}
	if err := s.server.counters.Refuses(); err != nil {
		return err
	}
	if known.holds {
		var shards counters.Shards
		for _, key := range used {
			shards |= s.counters.ShardOf(key)
		}
		s.counters.Hold(shards)
		defer s.counters.Release()
	}
	return known.run(s, keys, args)
}

// removeAll removes the counters whose keys match a pattern, also with the suffix after the match. It returns their
// number.
func (s *session) removeAll(text []byte, suffix string) (n int, err error) {
	pattern, err := readKeyPattern(text)
	if err != nil {
		return 0, err
	}
	return s.counters.RemoveAll(s.millis, func(key string) bool {
		return pattern.fits(key) || suffix != "" && strings.HasSuffix(key, suffix) && pattern.fits(key[:len(key)-len(suffix)])
	}), nil
}

// ScriptTable finds scripts by the SHA-1 of their texts.
type ScriptTable struct {
	bySHA map[[sha1.Size]byte]*Script
	names string // of the libraries, for errors

	mu     sync.Mutex
	spaced map[[sha1.Size]byte]*Script // known scripts that came with other white space, up to maxSpaced
}

// maxSpaced bounds spaced. EVALSHA does not know further texts that differ in white space alone; EVAL still runs them.
const maxSpaced = 64

// NewScriptTable returns a table of all known scripts.
func NewScriptTable() *ScriptTable {
	t := &ScriptTable{bySHA: map[[sha1.Size]byte]*Script{}, spaced: map[[sha1.Size]byte]*Script{}}
	var libraries []string
	for _, one := range all() {
		sha, ok := readSHA([]byte(one.SHA))
		if !ok {
			panic("scripts: the SHA-1 of a script: " + one.SHA)
		}
		t.bySHA[sha] = one
		if !slices.Contains(libraries, one.library) {
			libraries = append(libraries, one.library)
		}
	}
	t.names = strings.Join(libraries, ", ")
	return t
}

// BySHA returns the script of a SHA-1 as EVALSHA has it, or nil.
func (t *ScriptTable) BySHA(digits []byte) *Script {
	sha, ok := readSHA(digits)
	if !ok {
		return nil
	}
	if known := t.bySHA[sha]; known != nil {
		return known
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spaced[sha]
}

// ByText returns the script of a text, or why there is none.
func (t *ScriptTable) ByText(text []byte) (*Script, error) {
	sha := sha1.Sum(text)
	if known := t.bySHA[sha]; known != nil {
		return known, nil
	}
	if known := t.bySHA[sha1.Sum(singleSpaced(text))]; known != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(t.spaced) < maxSpaced {
			t.spaced[sha] = known
		}
		return known, nil
	}
	return nil, NewReplyError("ERR", "Weir runs no Lua. It knows the scripts of "+t.names+", and does what they do; the text with the SHA-1 "+
		hex.EncodeToString(sha[:])+" is none of them. Use the command ALLOW or CL.THROTTLE in its place; docs/resp.md lists versions")
}

// singleSpaced replaces each run of white space, such as a line end with the indent after it, by one space: people copy
// such texts. A text with comments, which end with their lines, stays as it is.
func singleSpaced(text []byte) []byte {
	if bytes.Contains(text, []byte("--")) {
		return text
	}
	return bytes.Join(bytes.Fields(text), []byte(" "))
}

func readSHA(digits []byte) (sha [sha1.Size]byte, ok bool) {
	if len(digits) != hex.EncodedLen(len(sha)) {
		return sha, false
	}
	_, err := hex.Decode(sha[:], digits)
	return sha, err == nil
}

// readNumber reads a number that need not be whole, and is finite and at least 0.
func readNumber(arg []byte) (float64, error) {
	f, err := strconv.ParseFloat(ArgumentView(arg), 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return 0, WrongArgument(api.CodeInvalidParameter, "argument", "argument "+ClipArgument(arg)+" of a script: must be a number from 0")
	}
	return f, nil
}

// readInts reads numbers as commands of Redis have them.
func readInts(args [][]byte) (numbers [5]int64, err error) {
	for i, arg := range args {
		if numbers[i], err = ArgumentInt(arg); err != nil {
			return numbers, err
		}
	}
	return numbers, nil
}

// nanoseconds converts seconds, rounded to the nearest nanosecond and bounded by half of the longest Duration.
func nanoseconds(seconds float64) time.Duration {
	return time.Duration(min(math.Round(seconds*float64(time.Second)), math.MaxInt64/2))
}

// writeNumber writes a number that need not be whole as Lua's tostring has it: as text, of 14 digits.
func (s *session) writeNumber(f float64) {
	var digits [32]byte
	s.out.BulkBytes(strconv.AppendFloat(digits[:0], f, 'g', 14, 64))
}

// traefikScripts returns the scripts of the rateLimit middleware of Traefik v3.4 and newer: a token bucket. The
// arguments are tokens per microsecond, burst, seconds until the key expires, the time in microseconds, and the longest
// delay in microseconds. The reply is "true", the delay in microseconds, and the tokens that remain. A delay above the
// longest means that the request was not admitted.
func traefikScripts() []*Script {
	const library = "Traefik v3.4 to v3.7 (rateLimit)"
	return []*Script{
		{library: library, SHA: "a82138cfb0cc9aa6e05d666c1f912744aefbe711", keys: 1, args: 5, run: (*session).traefik},
		{library: library, SHA: "3d93177e9b9a18f241edddc8d7e7fa1c47ae4eb6", keys: 1, args: 5, run: (*session).traefik},
	}
}

// traefik admits a request now or not at all. No request waits, whereas Traefik lets one wait for up to half the time
// of a token.
func (s *session) traefik(keys, args [][]byte) error {
	perMicrosecond, err := readNumber(args[0])
	if err != nil {
		return err
	}
	burst, err := ArgumentCount(args[1], "burst", 1)
	if err != nil {
		return err
	}
	longest, err := readNumber(args[4])
	if err != nil {
		return err
	}
	l, ok := limitOfRate(perMicrosecond * 1e6)
	if !ok {
		return WrongArgument(api.CodeInvalidLimit, "limit", "rate of "+ClipArgument(args[0])+" per microsecond: must be more than 0")
	}
	l.Burst = burst
	r, err := s.bucket(keys[0], l, 1, false)
	if err != nil {
		return err
	}
	tokens := float64(burst) - r.Reset.Seconds()/l.Per.Seconds()*float64(l.N)
	delay := 0.0
	if !r.Allowed {
		const more = 1 // Traefik denies longer delays, and has cut fractions off the longest delay
		delay = max(r.RetryAfter.Seconds()*1e6, longest+more)
	}
	s.out.Array(3)
	s.out.Bulk("true")
	s.writeNumber(delay)
	s.writeNumber(tokens)
	return nil
}

// limitOfRate returns a limit for a rate. If the rate is nearly a whole number per second, minute, hour or day, the
// limit has that number. Else it is one per interval of whole nanoseconds, or, for intervals below a millisecond, a
// whole number per second.
func limitOfRate(perSecond float64) (l admit.Limit, ok bool) {
	const nearly = 1e-12
	l.Algorithm = admit.GCRA
	for _, l.Per = range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		n := perSecond * l.Per.Seconds()
		if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) <= nearly*whole {
			l.N = uint64(min(whole, math.MaxInt64/2))
			return l, true
		}
	}
	if l.N, l.Per = 1, nanoseconds(1/perSecond); l.Per >= time.Millisecond {
		return l, perSecond > 0
	}
	l.N, l.Per = uint64(min(perSecond, math.MaxInt64/2)), time.Second
	return l, true
}

// redisRateScripts returns the scripts of go-redis/redis_rate v9 and v10: GCRA. The arguments are burst, rate, period
// in seconds, and cost. The reply is how many were allowed and how many remain. Two times in seconds follow, as texts:
// until a retry (-1: allowed), and until the whole burst is available.
func redisRateScripts() []*Script {
	const library = "go-redis/redis_rate v9 and v10 (Allow, AllowN, AllowAtMost)"
	return []*Script{
		{library: library, SHA: "f52a5b566060d79fd321d695df55bc918339c4aa", keys: 1, args: 4, run: (*session).rateAllowN},
		{library: library, SHA: "054143318f521948424aa25df61d7f7ba835a9d7", keys: 1, args: 4, run: (*session).rateAllowAtMost},
	}
}

// rateLimit has the arguments of the scripts of redis_rate.
type rateLimit struct {
	limit admit.Limit
	none  bool // burst is 0: nothing can pass
	cost  uint64
}

func readRateLimit(args [][]byte) (l rateLimit, err error) {
	var numbers [2]uint64 // burst, rate
	for i := range numbers {
		if numbers[i], err = ArgumentCount(args[i], [2]string{"burst", "rate"}[i], uint64(i)); err != nil {
			return l, err
		}
	}
	period, err := readNumber(args[2])
	if err != nil {
		return l, err
	}
	l.limit = admit.Limit{N: numbers[1], Per: nanoseconds(period), Burst: max(numbers[0], 1), Algorithm: admit.GCRA}
	if l.limit.Per <= 0 {
		return l, WrongArgument(api.CodeInvalidLimit, "period", "period of "+ClipArgument(args[2])+" s: must be more than 0")
	}
	l.none = numbers[0] == 0
	l.cost, err = ArgumentCount(args[3], "cost", 0)
	return l, err
}

// interval is how long one admission takes to come back.
func (l *rateLimit) interval() float64 { return l.limit.Per.Seconds() / float64(l.limit.N) }

// rateAllowN takes cost, all or none.
func (s *session) rateAllowN(keys, args [][]byte) error {
	l, err := readRateLimit(args)
	if err != nil {
		return err
	}
	n := l.cost
	if l.none {
		n = 0
	}
	r, err := s.bucket(keys[0], l.limit, n, false)
	switch {
	case err != nil:
		return err
	case l.none && l.cost > 0:
		s.writeRateDenied(float64(l.cost)*l.interval(), r.Reset)
	case l.none:
		s.writeRateAllowed(0, 0, r.Reset)
	case r.Allowed:
		s.writeRateAllowed(l.cost, r.Remaining, r.Reset)
	case r.Never: // as if the burst were large enough for it
		s.writeRateDenied(r.Reset.Seconds()+float64(l.cost-l.limit.Burst)*l.interval(), r.Reset)
	default:
		s.writeRateDenied(r.RetryAfter.Seconds(), r.Reset)
	}
	return nil
}

// atMostTries is how often AllowAtMost asks again when others took what it had seen.
const atMostTries = 4

// rateAllowAtMost takes up to cost: it looks how many are left and takes them. If cost is more, it takes the fraction
// of a further one too, as Redis does. If others took some in between, it looks again, at most atMostTries times; then
// it denies.
func (s *session) rateAllowAtMost(keys, args [][]byte) error {
	l, err := readRateLimit(args)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		r, err := s.bucket(keys[0], l.limit, 1, true)
		if err != nil {
			return err
		}
		if l.none {
			s.writeRateDenied(l.interval(), r.Reset)
			return nil
		}
		if r.Allowed && l.cost == 0 {
			s.writeRateAllowed(0, r.Remaining, r.Reset)
			return nil
		}
		n := uint64(1) // if nothing was left, this is denied and counted as a denial
		if r.Allowed {
			n = min(l.cost, r.Remaining)
		}
		all := r.Allowed && r.Remaining < l.cost
		switch {
		case all:
			r, err = s.exhaust(keys[0], l.limit, n)
		case l.cost > 0:
			r, err = s.bucket(keys[0], l.limit, n, false)
		}
		if err != nil {
			return err
		}
		switch {
		case r.Allowed && all:
			s.writeRateAllowed(n, 0, time.Duration(float64(l.limit.Burst)*l.interval()*float64(time.Second)))
			return nil
		case r.Allowed:
			s.writeRateAllowed(n, r.Remaining, r.Reset)
			return nil
		case n == 1 || try == atMostTries:
			s.writeRateDenied(r.RetryAfter.Seconds(), r.Reset)
			return nil
		}
	}
}

func (s *session) writeRateAllowed(cost, remaining uint64, reset time.Duration) {
	s.out.Array(4)
	s.out.Uint(cost)
	s.out.Uint(remaining)
	s.writeNumber(-1)
	s.writeNumber(reset.Seconds())
}

func (s *session) writeRateDenied(retry float64, reset time.Duration) {
	s.out.Array(4)
	s.out.Int(0)
	s.out.Int(0)
	s.writeNumber(retry)
	s.writeNumber(reset.Seconds())
}
