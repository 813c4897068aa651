package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
)

func TestCounters(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		INCR a -> 1
		EXPIRE a 60 NX -> 1
		INCRBY a 4 -> 5
		EXPIRE a 90 NX -> 0
		TTL a -> 60
		PTTL a -> 60000
		GET a -> "5"
		MGET a b -> ["5" nil]
		EXISTS a b a -> 2
		DECR a -> 4
		DECRBY a 3 -> 1
		TTL b -> -2
		EXPIRE b 1 -> 0
		SET b 7 -> OK
		TTL b -> -1
		SET b 8 EX 10 GET -> "7"
		SET b 9 KEEPTTL -> OK
		TTL b -> 10
		SET b 1 NX -> nil
		SET c 1 XX -> nil
		SET c 1 NX PX 1500 -> OK
		PTTL c -> 1500
		PEXPIREAT c 1769860802000 GT -> 1
		PTTL c -> 2000
		EXPIRE c 1 GT -> 0
		DEL c -> 1
		GET c -> nil
		SET d text -> -ERR value is not an integer or out of range: Weir's counters hold whole numbers alone
		SET d 1 EX 0 -> -ERR invalid expire time in 'set' command
		SET d 1 EX 10 KEEPTTL -> -ERR syntax error: SET key number [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
		SET d 9223372036854775807 -> OK
		INCR d -> -ERR increment or decrement would overflow
		INCRBY d x -> -ERR value is not an integer or out of range
		EXPIRE d -1 -> 1
		EXISTS d -> 0
	`)
	s.now.Add(60_000)
	c.says("GET a -> nil\nINCR a -> 1\nTTL a -> -1\n")
}

// Commands that set, read and remove at once, and conditions of EXPIRE.
func TestValuesAndConditions(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		SETNX a 5 -> 1
		SETNX a 6 -> 0
		GETSET a 7 -> "5"
		GETSET new 1 -> nil
		SETEX a 60 8 -> OK
		TTL a -> 60
		PSETEX a 1500 9 -> OK
		PTTL a -> 1500
		SETEX a 0 8 -> -ERR invalid expire time in 'setex' command
		SETEX a x 8 -> -ERR value is not an integer or out of range
		SETNX a text -> -ERR value is not an integer or out of range: Weir's counters hold whole numbers alone
		GETEX a EX 90 -> "9"
		TTL a -> 90
		GETEX a PERSIST -> "9"
		TTL a -> -1
		GETEX a EX 90 PERSIST -> -ERR syntax error: GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]
		GETEX a EX -1 -> -ERR invalid expire time in 'getex' command
		GETEX nothing -> nil
		PERSIST a -> 0
		EXPIRE a 60 -> 1
		PERSIST a -> 1
		TYPE a -> string
		GETDEL a -> "9"
		TYPE a -> none
		GETDEL a -> nil
		SET b 1 NX NX -> OK
		SET b 1 NX XX -> -ERR syntax error: SET key number [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
		EXPIRE b 60 XX GT -> 0
		EXPIRE b 60 NX NX -> 1
		EXPIRE b 50 XX GT -> 0
		EXPIRE b 70 GT XX XX -> 1
		EXPIRE b 60 XX LT -> 1
		TTL b -> 60
		EXPIRE b 60 NX GT -> -ERR NX and XX, GT or LT options at the same time are not compatible
		EXPIRE b 60 GT LT -> -ERR GT and LT options at the same time are not compatible
		EXPIRE b 60 ZZ -> -ERR Unsupported option ZZ
		EXPIRE b 9223372036854775807 -> -ERR invalid expire time in 'expire' command
		INCR "" -> 1
		DEL "" "" -> 1
		UNLINK b nothing -> 1
	`)
	long := strings.Repeat("k", 5000)
	c.says("INCR " + long + " -> 1\nGET " + long + " -> \"1\"\nDEL " + long + " -> 1\nHIT " + long + " -> -ERR invalid_key: the key is longer than 512 bytes")
}

// SCAN lists every counter once, whatever it is asked for at a time.
func TestScan(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	for i := range 300 {
		c.do("SET user:" + strconv.Itoa(i) + " 1")
	}
	c.do("SET other 1")
	c.do("HIT page")
	for _, count := range []int{1, 10, 1000} {
		seen := map[string]int{}
		calls := 0
		for cursor := "0"; ; calls++ {
			reply := strings.Fields(strings.NewReplacer("[", "", "]", "", `"`, "").Replace(c.do(fmt.Sprintf("SCAN %s MATCH user:* COUNT %d", cursor, count))))
			for _, key := range reply[1:] {
				seen[key]++
			}
			if cursor = reply[0]; cursor == "0" {
				break
			}
		}
		if len(seen) != 300 || seen["user:7"] != 1 || calls > 302 {
			t.Errorf("COUNT %d: %d keys in %d calls", count, len(seen), calls)
		}
	}
	c.says(`
		SCAN 0 COUNT 1000 MATCH other TYPE string -> ["0" ["other"]]
		SCAN 0 COUNT 1000 TYPE zset -> ["0" []]
		SCAN 9999999999 -> ["0" []]
		SCAN x -> -ERR invalid cursor
		SCAN 0 COUNT 0 -> -ERR syntax error: SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]
		DBSIZE -> 301
		FLUSHDB now -> -ERR syntax error: FLUSHDB [ASYNC | SYNC]
		FLUSHDB ASYNC -> OK
		DBSIZE -> 0
		COUNT page 5m -> [1 1 1 1 1769860800000]
	`)
	if c.do("TIME") != `["1769860800" "0"]` {
		t.Error(c.do("TIME"))
	}
}

// Patterns fit as in Redis.
func TestKeyPatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, fit, not string
	}{
		{"*", " a ab", ""}, {"", "", "a"}, {"a*b", "ab axxb abb", "a abc b"}, {"a?c", "abc", "ac abbc"}, {"*a*b*", "ab xaxbx", "ba"},
		{"[a-c]x", "ax cx", "dx x"}, {"[^a-c]x", "dx", "ax"}, {"[c-a]x", "bx", "dx"}, {`[\]x]`, "]", "a"}, {`\*`, "*", "a"}, {"[ab", "a b", "c"}, {"***a", "a ba", "b"}, {`a[\^b]`, "a^ ab", "ac"},
	} {
		for _, key := range strings.Split(tc.fit, " ") {
			if tc.fit != "" && !keyPattern(tc.pattern).fits(key) {
				t.Errorf("%s does not fit %q", tc.pattern, key)
			}
		}
		for _, key := range strings.Fields(tc.not) {
			if keyPattern(tc.pattern).fits(key) {
				t.Errorf("%s fits %q", tc.pattern, key)
			}
		}
	}
}

func TestTransactions(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		MULTI -> OK
		INCR a -> QUEUED
		EXPIRE a 60 -> QUEUED
		INCRBY a x -> QUEUED
		TTL a -> QUEUED
		HIT a -> QUEUED
		EXEC -> [1 1 -ERR value is not an integer or out of range 60 1]
		MULTI -> OK
		INCR a -> QUEUED
		DISCARD -> OK
		GET a -> "1"
		MULTI -> OK
		MULTI -> -ERR MULTI calls can not be nested
		INCR -> -ERR wrong number of arguments for 'incr' command: INCR key
		INCR a -> QUEUED
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		GET a -> "1"
		EXEC -> -ERR EXEC without MULTI
		MULTI -> OK
		COUNT a 1m -> -ERR COUNT may wait for other nodes, and no transaction may: send it outside of MULTI
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> OK
		COMMAND DOCS -> -ERR COMMAND has a long reply, and those of a transaction are kept in memory: send it outside of MULTI
		DISCARD -> OK

		HIT gone 3 -> 3
		SET gone 5 -> OK
		MULTI -> OK
		GET gone -> QUEUED
		DEL gone nothing -> QUEUED
		EXISTS gone -> QUEUED
		INCR gone -> QUEUED
		UNLINK gone -> QUEUED
		EXEC -> ["5" 1 0 1 1]
		COUNT gone 5m -> [0 0 0 1 1769860800000]
		MULTI -> OK
		SET b 1 -> QUEUED
		FLUSHALL -> QUEUED
		DBSIZE -> QUEUED
		SET a 1 -> QUEUED
		EXEC -> [OK OK 0 OK]
	`)
	c.do("MULTI")
	for range maxQueued {
		c.do("INCR a")
	}
	c.says("INCR a -> -ERR a transaction has at most 1024 commands and 262144 bytes\nRESET -> RESET\nGET a -> \"1\"")
	for _, pool := range s.service.Pools.All() {
		if st := pool.Stats(); st.Name == "buffered_bytes" && st.InUse != 0 {
			t.Errorf("%d bytes of transactions are still reserved", st.InUse)
		}
	}
}

func TestCountersAreFull(t *testing.T) {
	s := newServerOf(t, engine.Config{LimitMemory: 256 << 10}, Config{}, "", nil, admit.Cluster{})
	c := s.dial()
	var last string
	for i := range 1000 {
		if last = c.do("INCR key:" + strconv.Itoa(i)); last != "1" {
			break
		}
	}
	if want := "-OOM the memory for counters is used up by counters that have not expired: start the server with a larger --limit-memory, or let counters expire sooner"; last != want {
		t.Errorf("got %s", last)
	}
	if got := c.do("INCR key:0"); got != "2" {
		t.Errorf("a counter that is there: %s", got)
	}
	if list := s.Alarms(); len(list) != 1 || list[0].Code != "resp_counters_full" {
		t.Errorf("alarms %v", list)
	}
}
