package resp

import (
	"strconv"
	"testing"
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
		SET d 1 EX 0 -> -ERR invalid expire time
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

func TestIncreasesWithinBounds(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		INCREX a EX 60 UBOUND 2 -> [1 1]
		INCREX a EX 60 UBOUND 2 ENX -> [2 1]
		INCREX a EX 90 UBOUND 2 -> [2 0]
		TTL a -> 60
		INCREX a BYINT 5 UBOUND 4 SATURATE EX 30 -> [4 2]
		TTL a -> 30
		INCREX a BYINT -9 LBOUND 0 -> [4 0]
		INCREX a PERSIST -> [5 1]
		TTL a -> -1
		INCREX a BYFLOAT 1.5 -> -ERR BYFLOAT is not taken: Weir's counters hold whole numbers alone
		INCREX a LBOUND 5 UBOUND 4 -> -ERR LBOUND can't be greater than UBOUND
		INCREX new BYINT 5 UBOUND 4 -> [0 0]
		EXISTS new -> 0
	`)
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
	s := newTestServer(t, Config{CounterMemory: 64 << 10}, "")
	c := s.dial()
	var last string
	for i := range 1000 {
		if last = c.do("INCR key:" + strconv.Itoa(i)); last != "1" {
			break
		}
	}
	if want := "-OOM the memory for counters is used up by counters that have not expired: start the server with a larger --resp-counters, or let counters expire sooner"; last != want {
		t.Errorf("got %s", last)
	}
	if got := c.do("INCR key:0"); got != "2" {
		t.Errorf("a counter that is there: %s", got)
	}
	if list := s.Alarms(); len(list) != 1 || list[0].Code != "resp_counters_full" {
		t.Errorf("alarms %v", list)
	}
}
