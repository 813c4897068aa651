package resp

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
)

// A session may nothing before AUTH, and then what its identity may: every command, inside and outside of
// its keys.
func TestAuth(t *testing.T) {
	var file strings.Builder
	file.WriteString("identities:\n")
	for _, role := range auth.RoleNames() {
		fmt.Fprintf(&file, "- {name: %s, permissions: [{role: %s, keys: [\"in:\"]}], tokens: [{id: %s, sha256: %x}]}\n", role, role, role, sha256.Sum256([]byte("weir_"+role+"_s")))
	}
	fmt.Fprintf(&file, "- {name: all, permissions: [{role: decide}], tokens: [{id: all, sha256: %x}]}\n", sha256.Sum256([]byte("weir_all_s")))
	set, err := auth.Parse("tokens", []byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	s := newLockedServer(t, Config{}, "", access.NewTokens(set))
	commands := map[string]string{ // by command, for which role, with KEY for a key, and PERMIT_OF_KEY for a permit that somebody else took of it
		"PFADD KEY id": "ingest", "PFCOUNT KEY": "read", "PFMERGE KEY": "ingest", "HIT KEY": "ingest", "MHIT KEY 1": "ingest", "COUNT KEY 5m": "read", "RATE KEY 5m": "read", "SERIES KEY 1m": "read", "TOP 5m 3 PREFIX KEY": "read",
		"ALLOW KEY LIMIT 1000 PER 1h": "decide", "PEEK KEY LIMIT 1000 PER 1h": "decide", "CL.THROTTLE KEY 1000 1000 60": "decide",
		"DEL KEY": "admin", "RESET KEY": "decide admin", "RESET KEY NAME inline/gcra/1m": "decide admin", "EVALSHA " + shaReset + " 1 KEY*": "decide",
		"EVALSHA " + shaBucket + " 1 KEY 10 1000 3 50000 4": "decide", "EVALSHA " + shaBucketLeft + " 1 KEY 10": "decide", "EVALSHA " + shaCached + " 1 KEY 60000 2": "decide", "EVALSHA " + shaCachedLeft + " 1 KEY": "decide",
		"INCR KEY": "decide", "INCRBY KEY 1": "decide", "DECR KEY": "decide", "DECRBY KEY 1": "decide",
		"PERMIT KEY": "decide", "REFUND KEY LIMIT 1000 PER 1h": "decide", "GRANT nobody KEY 1 1h": "admin", "BAN nobody KEY 1h": "admin", "UNBAN nobody KEY": "admin", "BANS": "read", "RESERVE KEY LIMIT 1000 PER 1h": "decide", "SETTLE nobody 1": "decide",
		"GET KEY": "decide", "MGET in:a KEY": "decide", "SET KEY 1": "decide", "EXISTS KEY": "decide", "EXPIRE KEY 9": "decide", "PEXPIRE KEY 9": "decide",
		"EXPIREAT KEY 9999999999": "decide", "PEXPIREAT KEY 9999999999999": "decide", "TTL KEY": "decide", "PTTL KEY": "decide",
		"EVALSHA " + shaAllowN + " 1 KEY 1000 1000 60 1": "decide", "EVALSHA " + shaAllowAtMost + " 1 KEY 1000 1000 60 1": "decide",
		"EVALSHA 895b92e1712734e1b464999be23953485475357b 1 KEY 9000": "decide", "EVALSHA 6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a 1 KEY": "decide", "EVALSHA 566f5c6a17e5fddb9a10bf389f754edd0d899c61 1 KEY": "decide",
		"EVALSHA f2994557f1daca13bfef97c2a31ca4b174e031ca 1 KEY*": "decide", "EVALSHA ebd682e30de074a6919bde872b507734c7c3ebe5 1 KEY 1 2 60": "decide",
		"EVALSHA ad00ff6f099013f2aea94ed48c220cbf616c6a07 1 KEYlog 1 9 9 0": "decide", "EVALSHA ad795214f59fe26d6fdec07973836dd16586f5ec 1 KEYlog 0 9": "decide",
		"EVALSHA " + shaTraefik + " 1 KEY 0.01 100 9 1 1": "decide", "EVALSHA " + shaFlexible + " 1 KEY 1 60": "decide",
		"EVALSHA " + shaFixed + " 2 in:a KEY 3 60000 1": "decide", "EVALSHA " + shaFixedLeft + " 1 KEY 3": "decide",
		"EVALSHA " + shaSliding + " 3 in:b in:c KEY 9 1 1 1": "decide", "EVALSHA " + shaSlidingLeft + " 2 in:b KEY 9 1 1": "decide",
		"SETNX KEY 1": "decide", "SETEX KEY 9 1": "decide", "PSETEX KEY 9 1": "decide", "GETSET KEY 1": "decide", "GETDEL KEY": "decide", "GETEX KEY": "decide", "TYPE KEY": "decide", "PERSIST KEY": "decide",
		"UNLINK KEY": "admin", "SCAN 0 MATCH KEY*": "decide", "SCAN 0": "none", "DBSIZE": "none", "FLUSHDB": "none", "FLUSHALL": "none", "TIME": "any",
		"HEARTBEAT PERMIT_OF_KEY": "decide", "RELEASE PERMIT_OF_KEY": "decide",
		"EVAL x 0": "decide", "SCRIPT FLUSH": "any",
		"PING": "any", "ECHO KEY": "any", "SELECT 0": "any", "CLIENT ID": "any", "COMMAND COUNT": "any", "CONFIG GET maxclients": "any", "INFO": "none",
	}
	for _, c := range s.commands.list {
		known := c.flags.has(immediate) || c.flags.has(public)
		for command := range commands {
			known = known || strings.EqualFold(strings.Fields(command)[0], c.name)
		}
		if !known {
			t.Errorf("the test has no %s", c.name)
		}
	}
	c := s.dial()
	for command := range commands {
		if got := c.do(command); !strings.HasPrefix(got, "-NOAUTH ") || !strings.Contains(got, "AUTH NAME TOKEN") || strings.Contains(got, "Bearer") {
			t.Errorf("%s without AUTH: %s", command, got)
		}
	}
	for command, want := range map[string]string{
		"HELLO 3": "-NOAUTH ", "AUTH weir_read_x": "-WRONGPASS ", "AUTH ingest weir_read_s": "-WRONGPASS ", "HELLO 3 AUTH default x": "-WRONGPASS ",
	} {
		if got := c.do(command); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", command, got)
		}
	}
	c.do("AUTH all weir_all_s")
	for _, command := range []string{"FLUSHDB", "FLUSHALL ASYNC"} { // as DEL does
		if got := c.do(command); !strings.HasPrefix(got, "-NOPERM ") || !strings.Contains(got, "admin") {
			t.Errorf("%s with role decide for all keys: %s", command, got)
		}
	}
	permits := map[string]string{}
	for _, key := range []string{"in:a", "out:a"} {
		permits[key], _, _ = strings.Cut(strings.TrimPrefix(c.do("PERMIT "+key), `["`), `"`)
	}
	for _, role := range auth.RoleNames() {
		c.do("RESET")
		if got := c.do("AUTH " + role + " weir_" + role + "_s"); got != "OK" {
			t.Fatalf("AUTH: %s", got)
		}
		for command, needs := range commands { // what else is wrong with a command comes after who may send it
			name, _, _ := strings.Cut(command, " ")
			if needs == "any" || slices.Contains(strings.Fields(needs), role) || name == "SCAN" && role == "decide" { // which it may, with a pattern
				continue
			}
			for _, malformed := range []string{name, name + " out:a \"\" x y z", name + " x"} {
				if malformed == "RESET" { // it is for everybody
					continue
				}
				if got := c.do(malformed); !strings.HasPrefix(got, "-NOPERM ") {
					t.Errorf("%s: %s: %s", role, malformed, got)
				}
			}
		}
		for command, needs := range commands {
			for _, key := range []string{"in:a", "out:a"} {
				may := needs == "any" || slices.Contains(strings.Fields(needs), role) && (key == "in:a" || !strings.Contains(command, "KEY"))
				is := strings.NewReplacer("PERMIT_OF_KEY", permits[key], "KEY", key)
				if got := c.do(is.Replace(command)); strings.HasPrefix(got, "-NOPERM ") == may || strings.HasPrefix(got, "-NOAUTH ") {
					t.Errorf("%s: %s of %s: %s", role, command, key, got)
				}
			}
		}
		c.do("MULTI")
		if got := c.do("INCR out:b"); !strings.HasPrefix(got, "-NOPERM ") {
			t.Errorf("%s: in a transaction: %s", role, got)
		}
		if got := c.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
			t.Errorf("%s: after it: %s", role, got)
		}
	}
	if got := c.do("RESET"); got != "RESET" {
		t.Error(got)
	}
	if got := c.do("PING"); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Errorf("after RESET: %s", got)
	}
	if got := c.do("HELLO 3 AUTH default weir_read_s"); !strings.Contains(got, "server") {
		t.Errorf("HELLO with AUTH: %s", got)
	}
}
