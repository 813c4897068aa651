package resp

import (
	"strings"
	"testing"
	"time"
)

// What keys have used of limits that requests brought along is given back: by name, of all, and by DEL, as clients of
// redis_rate and redis-cell expect.
func TestReset(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "limits: [{name: login, keys: \"login:{user}\", limit: 2, per: 1m}]")
	s.dial().says(`
		RESET a b -> 0
		CL.THROTTLE a 1 10 60 -> [0 2 1 -1 6]
		ALLOW a LIMIT 2 PER 1m COST 2 -> [1 0 0 60000 "inline/window/1m"]
		ALLOW a LIMIT 2 PER 1m -> [0 0 60000 60000 "inline/window/1m" "ID"]
		RESET a NAME inline/gcra/1m -> 1
		CL.THROTTLE a 1 10 60 -> [0 2 1 -1 6]
		ALLOW a LIMIT 2 PER 1m -> [0 0 60000 60000 "inline/window/1m" "ID"]
		RESET a b -> 1
		ALLOW a LIMIT 2 PER 1m COST 2 -> [1 0 0 60000 "inline/window/1m"]
		CL.THROTTLE a 1 10 60 -> [0 2 1 -1 6]
		DEL a nobody -> 1
		CL.THROTTLE a 1 10 60 -> [0 2 1 -1 6]
		ALLOW a LIMIT 2 PER 1m -> [1 1 0 60000 "inline/window/1m"]
		ALLOW login:bob COST 2 -> [1 0 0 60000 "login"]
		RESET login:bob -> 0
		RESET login:bob NAME login -> 1
		ALLOW login:bob -> [1 1 0 60000 "login"]
		MULTI -> OK
		RESET a -> -ERR RESET of keys can't be in a transaction
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
	`)
	if got := s.dial().do("RESET a NAME nothing"); !strings.HasPrefix(got, "-ERR unknown_limit: ") {
		t.Error(got)
	}
}

func TestHits(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	s.dial().says(`
		HIT a -> 1
		hit a 4 -> 4
		HIT a AT 1769860790 -> 1
		HIT a 2 AT 1769860790 -> 2
		MHIT a 1 b 5 -> 6
		COUNT a 5m -> [9 9 9 1 1769860800000]
		COUNT a 5s 5m -> [[6 6 6 1 1769860800000] [9 9 9 1 1769860800000]]
		COUNT a 1m AT 1769860795 -> [3 3 3 1 1769860800000]
		RATE a 10s -> ["0.6" "0.6" "0.6" 1 1769860800000]
		TOP 5m 10 -> [[["a" 9 9 9] ["b" 5 5 5]] 1769860800000]
		TOP 5m 10 PREFIX b -> [[["b" 5 5 5]] 1769860800000]
		SERIES a 10s FROM 1769860770 TO 1769860800 -> [[[1769860780 0 0 0] [1769860790 3 3 3] [1769860800 6 6 6]] 1769860800000]
		SERIES a 10s FROM -20s -> [[[1769860790 3 3 3] [1769860800 6 6 6]] 1769860800000]
		DEL a nobody -> 1
		COUNT a 5m -> [0 0 0 1 1769860800000]
		COUNT b 5m SCOPE node -> [5 5 5 1 1769860800000]
		COUNT b 5m scope Region AT 1769860800 -> [5 5 5 1 1769860800000]
		TOP 5m 10 PREFIX b SCOPE region -> [[["b" 5 5 5]] 1769860800000]
		SERIES b 10s FROM 1769860790 SCOPE region -> [[[1769860800 5 5 5]] 1769860800000]

		HIT -> -ERR wrong number of arguments for 'hit' command: HIT key [n] [AT time]
		HIT a 0 -> -ERR invalid_count: n must be a whole number from 1 to 1099511627776, in digits
		HIT a -5 -> -ERR invalid_count: n must be a whole number from 1 to 1099511627776, in digits
		HIT a 1 AT -> -ERR syntax error: HIT key [n] [AT time]
		HIT a AT soon -> -ERR invalid_time: at: "soon" is not a time: write RFC 3339 like 2026-01-31T12:00:00Z, or Unix seconds like 1769860800
		HIT a AT 1800000000 -> -ERR too_far_ahead: at is 30139200 s ahead of the clock, at most 5 s are allowed: check the sender's clock and the unit of at
		HIT * -> -ERR reserved_key: key * is reserved: it counts all hits by itself
		HIT limit:a:allowed -> -ERR reserved_key: keys limit:... are counted by limits alone, so that their counts are true: write another key
		HIT "\xff" -> -ERR invalid_key: the key is not UTF-8
		HIT "" -> -ERR invalid_key: the key is empty
		MHIT a 1 b -> -ERR syntax error: MHIT key n [key n ...]
		MHIT a 1 b x -> -ERR invalid_count: n must be a whole number from 1 to 1099511627776, in digits
		ALLOW "\xff" -> -ERR invalid_key: the key is not UTF-8
		COUNT a -> -ERR wrong number of arguments for 'count' command: COUNT key window [window ...] [AT time] [FRESH duration] [SCOPE node|region|global] [BY region]
		COUNT a 1h SCOPE town -> -ERR invalid_parameter: scope must be node, region or global
		COUNT a 1h BY town -> -ERR invalid_parameter: by must be region
		COUNT a 1h BY region -> -ERR invalid_parameter: by=region needs a server with --region, and scope=global
		TOP 1h 1 BY region -> -ERR syntax error: TOP window n [PREFIX text] [AT time] [FRESH duration] [SCOPE node|region|global]
		COUNT a 1h FRESH -> -ERR syntax error: COUNT key window [window ...] [AT time] [FRESH duration] [SCOPE node|region|global] [BY region]
		COUNT a 5 mins -> -ERR invalid_window: "mins" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds
		TOP 5m 0 -> -ERR invalid_parameter: n of 0: must be a whole number from 1 to 1000
	`)
	if n, _ := s.engine.CountAt(start, "a", time.Minute); n.Estimate != 0 {
		t.Errorf("refused hits were counted: %+v", n)
	}
}

func TestSomeHitsOfManyAreCounted(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	want := "-PARTIAL 3 hits were counted, 0 were too late, 1 keys were refused; the first is key 2: reserved_key: key * is reserved: it counts all hits by itself"
	if got := c.do("MHIT a 1 * 1 b 2"); got != want {
		t.Errorf("got %s", got)
	}
	if got := c.do("MHIT" + strings.Repeat(" a 1", 101)); !strings.HasPrefix(got, "-ERR too_many_lines:") {
		t.Errorf("got %s", got)
	}
}

func TestAnswersInVersion3(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	s.dial().says(`
		HELLO 3 -> {server: "weir" version: "7.2.0" proto: 3 id: 1 mode: "standalone" role: "master" modules: []}
		HIT a 5 -> 5
		COUNT a 5m -> {lower: 5 estimate: 5 upper: 5 exact: t as_of: 1769860800000}
		RATE a 10s -> {lower: 0.5 estimate: 0.5 upper: 0.5 exact: t as_of: 1769860800000}
		COUNT a 60d -> {lower: 5 estimate: 5 upper: null exact: f as_of: 1769860800000}
		TOP 1m 1 -> {keys: [["a" 5 5 5]] as_of: 1769860800000}
		ALLOW a LIMIT 2 PER 1m -> {allowed: t remaining: 1 retry_after_ms: 0 reset_ms: 60000 limit: "inline/window/1m"}
		GET nothing -> null
	`)
}

func TestSupport(t *testing.T) {
	s := newTestServer(t, Config{}, "limits: [{name: login, keys: \"login:{user}:*\", by: \"login:{user}\", limit: 2, per: 1m}]")
	s.dial().says(`
		ALLOW login:a:x COST 2 -> [1 0 0 60000 "login"]
		REFUND login:a:x -> 1
		REFUND login:a:x COST 5 TAKEN 1769860800 -> 1
		ALLOW login:a:x COST 2 -> [1 0 0 60000 "login"]
		RESET login:a NAME login -> 1
		ALLOW login:a:x COST 2 -> [1 0 0 60000 "login"]
		GRANT login login:a 3 1h -> 3
		ALLOW login:a:x COST 2 -> [1 1 0 60000 "login"]
		GRANT login login:a 0 -> 0
		REFUND nobody -> 0
		RESERVE login:c:x COST 2 TTL 30s ID r1 -> ["r1" [1 0 0 60000 "login"]]
		RESERVE login:c:x COST 2 TTL 30s ID r1 -> ["r1" nil]
		RESERVE nobody UNSETTLED returned -> [nil [1 nil 0 0 nil]]
		SETTLE r1 1 -> [1 0]
		SETTLE r1 1 -> [0 0]
		SETTLE r1 0 -> -ERR key_reused: the reservation is settled with 1 used of limit login, and now it is 0: a settlement may be repeated, and not changed
		SETTLE r2 1 -> -ERR unknown_reservation: no reservation r2 is known: its ttl is over, or the node that made it does not answer
		RESERVE login:c:x ID r3 -> ["r3" [1 0 0 60000 "login"]]
		SETTLE r3 2 -> [0 1]
		RESERVE login:d:x ID r4 -> ["r4" [1 1 0 60000 "login"]]
		SETTLE r4 5 DEBT -> [0 0]
		PEEK login:d:x -> [0 0 60000 60000 "login"]
		BANS -> []
		BAN login login:b 2h -> 1769868000000
		BAN login login:e 1h -> 1769864400000
		PEEK login:b:x -> [0 0 7200000 7200000 "login"]
		BANS -> [["login" "login:b" 1769868000000] ["login" "login:e" 1769864400000]]
		BANS 1 -> [["login" "login:b" 1769868000000]]
		UNBAN login login:b -> 1
		UNBAN login login:b -> 0
		BANS 0 -> -ERR invalid_count: n of 0: must be a whole number from 1
		BAN login login:b soon -> -ERR invalid_window: "soon" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds
		BAN nobody login:b 1h -> -ERR unknown_limit: no limit "nobody"; there are login
		GRANT login login:a 3 -> -ERR syntax error: GRANT limit key n duration
		GRANT login login:a x 1h -> -ERR invalid_count: n of x: must be a whole number from 0
		REFUND login:a:x TAKEN soon -> -ERR invalid_time: taken: "soon" is not a time: write RFC 3339 like 2026-01-31T12:00:00Z, or Unix seconds like 1769860800
	`)
}

func TestDecisions(t *testing.T) {
	s := newTestServer(t, Config{}, "limits: [{name: login, keys: \"login:{user}\", limit: 2, per: 1m}]")
	s.dial().says(`
		PEEK login:a -> [1 2 0 0 "login"]
		ALLOW login:a -> [1 1 0 60000 "login"]
		ALLOW login:a NAME login -> [1 0 0 60000 "login"]
		ALLOW login:a -> [0 0 60000 60000 "login" "ID"]
		ALLOW login:b login:a -> [0 0 60000 60000 "login" "ID"]
		PEEK login:b COST 2 -> [1 2 0 0 "login"]
		ALLOW nobody -> [1 nil 0 0 nil]
		ALLOW x LIMIT 10 PER 1s BURST 5 ALGORITHM gcra COST 3 -> [1 2 0 300 "inline/gcra/1s"]
		ALLOW x LIMIT 10 PER 1s NAME mine -> [1 9 0 1000 "mine"]
		ALLOW login:a COST 3 -> -ERR invalid_count: n of 3 can never pass limit login of key "login:a": at most 2 at once; ask for fewer at a time, or raise the burst
		ALLOW login:a NAME nope -> -ERR unknown_limit: no limit "nope"; there are login
		ALLOW x LIMIT 10 -> -ERR invalid_limit: a limit needs LIMIT n and PER duration, for example LIMIT 100 PER 1m
		ALLOW x BURST 10 -> -ERR invalid_limit: a limit needs LIMIT n and PER duration, for example LIMIT 100 PER 1m
		ALLOW x LIMIT 10 PER 1s ALGORITHM leaky -> -ERR invalid_limit: ALGORITHM leaky: must be window, fixed or gcra
		COUNT limit:login:denied 1m -> [2 2 2 1 1769860800000]
	`)
}

func TestThrottle(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	s.dial().says(`
		CL.THROTTLE a 2 30 60 -> [0 3 2 -1 2]
		CL.THROTTLE a 2 30 60 2 -> [0 3 0 -1 6]
		CL.THROTTLE a 2 30 60 1 -> [1 3 0 2 6]
		CL.THROTTLE a 2 30 60 0 -> [0 3 0 -1 6]
		CL.THROTTLE a 2 30 60 9 -> [1 3 0 -1 6]
		CL.THROTTLE fast 7999 8000 1 8000 -> [0 8000 0 -1 1]
		CL.THROTTLE fast 7999 8000 1 -> [1 8000 0 1 1]
		CL.THROTTLE a 2 0 60 -> -ERR invalid_limit: CL.THROTTLE needs max_burst and quantity from 0, count and period from 1
		CL.THROTTLE a 2 x 60 -> -ERR value is not an integer or out of range
		CL.THROTTLE a 2 1 172800 -> -ERR invalid_limit: per of a limit sent with a request, and per * burst / n, are at most 1d: write a policy for a longer one, or raise --max-inline-per
	`)
}

// At 8,000 a second one comes back each 125 µs, not sooner and not later.
func TestThrottleAtHighRates(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says("CL.THROTTLE a 7999 8000 1 8000 -> [0 8000 0 -1 1]")
	admitted := 0
	for after := time.Duration(0); after <= 100*time.Millisecond; after += 25 * time.Microsecond {
		s.passed.Store(int64(after))
		if got := c.do("CL.THROTTLE a 7999 8000 1"); strings.HasPrefix(got, "[0 ") {
			admitted++
			if after%(125*time.Microsecond) != 0 {
				t.Errorf("one is admitted after %v", after)
			}
		}
	}
	if admitted != 800 {
		t.Errorf("%d admitted in 100 ms", admitted)
	}
}
