package resp

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
)

// What follows a refused SELECT, and a refused CLIENT CACHING YES, is refused too: clients do not always look at their replies.
func TestRefusalsThatLast(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		SELECT 1 -> -ERR DB index is out of range: there is one database, 0. SELECT 0 goes back to it
		INCR a -> -ERR DB index is out of range: there is one database, 0. SELECT 0 goes back to it
		HIT a -> -ERR DB index is out of range: there is one database, 0. SELECT 0 goes back to it
		PING -> PONG
		SELECT 0 -> OK
		INCR a -> 1
		CLIENT TRACKING ON OPTIN -> OK
		CLIENT TRACKING OFF -> OK
		CLIENT TRACKING ON -> -ERR Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)
		CLIENT CACHING YES -> -ERR Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)
		GET a -> -ERR Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)
		GET a -> "1"
		CLIENT CACHING YES -> -ERR Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)
		MULTI -> OK
		PTTL a -> -ERR Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)
		GET a -> -ERR Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		GET a -> "1"
		SELECT 1 -> -ERR DB index is out of range: there is one database, 0. SELECT 0 goes back to it
		RESET -> RESET
		GET a -> "1"
	`)
}

func TestConnections(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		PING -> PONG
		PING hello -> "hello"
		ECHO "a b" -> "a b"
		SELECT 0 -> OK
		SELECT x -> -ERR invalid DB index
		CLIENT ID -> 1
		CLIENT GETNAME -> nil
		CLIENT SETNAME me -> OK
		CLIENT GETNAME -> "me"
		CLIENT SETINFO LIB-NAME test -> OK
		CLIENT NO-EVICT ON -> OK
		HELLO 4 -> -NOPROTO unsupported protocol version: it must be 2 or 3
		HELLO 3 AUTH a b -> -ERR AUTH is not taken: this server was started without --tokens; leave user and password out
		AUTH secret -> -ERR AUTH is not taken: this server was started without --tokens; leave user and password out
		CONFIG GET save -> ["save" ""]
		CONFIG GET max*s databases -> ["databases" "1" "maxclients" "4096"]
		CONFIG SET save x -> -ERR settings are flags of weir serve: write CONFIG GET pattern
		COMMAND INFO hit nothing -> [["hit" -2 [write denyoom fast] 1 1 1] nil]
		COMMAND DOCS quit -> ["quit" ["summary" "Closes the connection." "since" "1.0.0" "group" "connection" "arguments" []]]
		LPUSH now -> -ERR unknown command 'LPUSH', with args beginning with: 'now'
		LPUSH "return 1" 0 -> -ERR unknown command 'LPUSH', with args beginning with: 'return 1' '0'
		RESET -> RESET
		QUIT -> OK
	`)
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("after QUIT: %v", err)
	}
	if f := s.Figures(); s.sent() != 23 || f.Failed != 7 {
		t.Errorf("%d commands, %+v", s.sent(), f)
	}
}

func TestInfo(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	for _, want := range []string{"redis_version:7.2.0", "weir_version:dev", "connected_clients:1", "hits_durable:0", "db0:keys=0"} {
		if got := c.do("INFO"); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	c.do("SET a 5 EX 100")
	c.do("SET b 5")
	for section, want := range map[string]string{"keyspace": "db0:keys=2,expires=1,", "memory": "maxmemory:67108864"} {
		if got := c.do("INFO " + section); !strings.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	if got := c.do("CONFIG GET maxmemory"); !strings.Contains(got, `"67108864"`) {
		t.Errorf("got %s", got)
	}
	if got := c.do("INFO clients"); strings.Contains(got, "Server") || !strings.Contains(got, "maxclients:4096") {
		t.Errorf("got %s", got)
	}
}

// Replies come in order, and once no whole request is left, also if a part of one is.
func TestPipeline(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	const n = 5000
	c.send(strings.Repeat("*3\r\n$6\r\nINCRBY\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nHIT\r\n$1\r\na\r\n", n) + "*2\r\n$4\r\nECHO\r\n$5\r\nhel")
	for i := 1; i <= n; i++ {
		if got := c.reply() + " " + c.reply(); got != strconv.Itoa(i)+" 1" {
			t.Fatalf("request %d: %s", i, got)
		}
	}
	c.send("lo\r\n")
	if got := c.reply(); got != `"hello"` {
		t.Errorf("got %s", got)
	}
}

// A client that breaks the protocol learns why, after the replies to what was before.
func TestFaultsEndTheConnection(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	for sent, want := range map[string]string{
		"*1\r\n:1\r\n":        "-ERR Protocol error: expected '$', got ':'",
		"*1\r\n$99999999\r\n": "-ERR Protocol error: invalid bulk length",
		"ECHO \"\n":           "-ERR Protocol error: a line has quotes: send an array of bulk strings, as redis-cli does",
		"POST / HTTP/1.1\r\nHost: a\r\n\r\nHIT a\r\n":      "-ERR this address speaks RESP, not HTTP",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nHIT a\n": "-ERR wrong number of arguments for 'get' command: GET key",
	} {
		c := s.dial()
		c.send("PING\r\n" + sent)
		if got := c.reply(); got != "PONG" {
			t.Errorf("%q: %s before", sent, got)
		}
		if got := c.reply(); got != want {
			t.Errorf("%q: %s", sent, got)
		}
		if rest, _ := io.ReadAll(c.in); strings.Contains(string(rest), ":") && !strings.Contains(string(rest), "HTTP") {
			t.Errorf("%q: a command after it was run: %q", sent, rest)
		}
	}
	if st, _ := s.service.Stats(access.Caller{}); st.Hits != 0 {
		t.Errorf("%d hits of a web page were counted", st.Hits)
	}
}

// Who sends a byte now and then, or nothing, does not stay.
func TestSlowClientsAreCutOff(t *testing.T) {
	s := newTestServer(t, Config{Settings: listener.Settings{RequestTimeout: 50 * time.Millisecond, IdleTimeout: time.Second}}, "")
	slow, idle := s.dial(), s.dial()
	go func() {
		for {
			if _, err := slow.conn.Write([]byte("E")); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for _, c := range []*testClient{slow, idle} {
		if _, err := io.ReadAll(c.in); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
}

// One connection more than the bound takes the place of one that waits.
func TestConnectionsAreBounded(t *testing.T) {
	s := newTestServer(t, Config{Settings: listener.Settings{MaxConns: 2}}, "")
	first := s.dial()
	first.do("PING")
	for range 3 {
		if got := s.dial().do("PING"); got != "PONG" {
			t.Fatal(got)
		}
	}
	if _, err := first.in.ReadByte(); err == nil {
		t.Error("the connection that waited longest is open")
	}
	if st := s.Figures(); st.Open > 2 || st.Shed != 2 || st.Bound != 2 {
		t.Errorf("%+v", st)
	}
}

// A stop answers what was received, and ends connections that wait.
func TestStop(t *testing.T) {
	s := newTestServer(t, Config{}, "")
	idle, busy := s.dial(), s.dial()
	idle.do("PING")
	busy.do("PING")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*testClient{idle, busy} {
		if _, err := c.in.ReadByte(); err != io.EOF {
			t.Errorf("after the stop: %v", err)
		}
	}
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("the address is open")
	}
	if st := s.Figures(); st.Open != 0 {
		t.Errorf("%d connections are open", st.Open)
	}
}

// Who takes no replies is cut off, and keeps no place meanwhile.
func TestAClientThatTakesNoReplies(t *testing.T) {
	s := newTestServer(t, Config{Settings: listener.Settings{RequestTimeout: 100 * time.Millisecond}}, "")
	c := s.dial()
	go func() { _, _ = io.Copy(c.conn, &endless{line: []byte("COMMAND\r\n")}) }()
	for deadline := time.Now().Add(time.Minute); s.Figures().Open > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still open")
		}
	}
	for _, pool := range s.service.Pools.All() {
		if st := pool.Stats(); st.InUse != 0 {
			t.Errorf("%s: %d in use", st.Name, st.InUse)
		}
	}
}

// Places of hits are for all: who takes no replies has none, once the server waits for it.
func TestWhoTakesNoRepliesHasNoPlaceOfHits(t *testing.T) {
	s := newTestServer(t, Config{Settings: listener.Settings{RequestTimeout: time.Hour}}, "")
	c := s.dial()
	go func() { _, _ = io.Copy(c.conn, &endless{line: []byte("HIT a\r\n" + strings.Repeat("X\r\n", 1000))}) }() // replies are longer than requests
	var before uint64
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		sent, places := s.sent(), s.service.Pools.Hits.Stats().InUse
		if sent > 0 && sent == before && places == 0 {
			return
		}
		if before = sent; time.Now().After(deadline) {
			t.Fatalf("%d places of hits are in use after %d commands", places, sent)
		}
	}
}

type endless struct{ line []byte }

func (e *endless) Read(b []byte) (int, error) { return copy(b, e.line), nil }

// Commands that are sent often allocate nothing for keys that are there.
func TestNothingIsAllocated(t *testing.T) {
	const pipeline = 500
	s := newTestServer(t, Config{}, "")
	replies := make([]byte, 1<<16)
	for command, lines := range map[string]int{ // of its reply
		"HIT a": 1, "INCR b": 1, "COUNT a 5m": 6, "COUNT a 5m 1h": 13, "ALLOW a LIMIT 1000000 PER 1m": 7, "CL.THROTTLE a 1000000 1000000 60": 6,
		"EVALSHA " + shaFlexible + " 1 c 1 60": 3,
	} {
		var one strings.Builder
		words := strings.Fields(command)
		fmt.Fprintf(&one, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&one, "$%d\r\n%s\r\n", len(w), w)
		}
		sent := strings.Repeat(one.String(), pipeline)
		c := s.dial()
		round := func() {
			if _, err := io.WriteString(c.conn, sent); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < lines*pipeline; {
				n, err := c.conn.Read(replies)
				if err != nil {
					t.Fatal(err)
				}
				got += strings.Count(ArgumentView(replies[:n]), "\n")
			}
		}
		round()
		if n := testing.AllocsPerRun(20, round); n > pipeline/25 { // what the runtime does besides
			t.Errorf("%s: %v allocations for %d requests", command, n, pipeline)
		}
	}
}
