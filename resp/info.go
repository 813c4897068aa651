package resp

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/resp/argument"
)

func serverCommands() []*command {
	const group = "server"
	return []*command{
		{name: "command", syntax: "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]", summary: "Lists the commands.", group: group, arity: -1, flags: lengthy, run: (*session).command},
		{name: "config", syntax: "GET pattern [pattern ...]", summary: "Says some settings under their names in Redis.", group: group, arity: -2, flags: lengthy, run: (*session).config},
		{name: "info", syntax: "[section ...]", summary: "Says how the server is.", group: group, arity: -1, flags: waits, run: (*session).info},
	}
}

// config is CONFIG GET, which clients and benchmarks look at.
func (s *session) config(args [][]byte) error {
	if !argument.Is(args[1], "GET") || len(args) < 3 {
		return argument.Fail("ERR", "settings are flags of weir serve: write CONFIG GET pattern")
	}
	cfg := &s.server.cfg
	all := [][2]string{
		{"appendonly", "no"}, {"databases", "1"}, {"maxclients", strconv.Itoa(cfg.MaxConns)}, {"maxmemory", strconv.FormatInt(cfg.CounterMemory, 10)},
		{"maxmemory-policy", "noeviction"}, {"proto-max-bulk-len", strconv.Itoa(limits.Bulk)}, {"save", ""}, {"timeout", strconv.Itoa(int(cfg.IdleTimeout / time.Second))},
	}
	matched := all[:0]
	for _, setting := range all {
		for _, pattern := range args[2:] {
			if ok, err := path.Match(strings.ToLower(string(pattern)), setting[0]); ok && err == nil {
				matched = append(matched, setting)
				break
			}
		}
	}
	s.out.Map(len(matched))
	for _, setting := range matched {
		s.out.Bulk(setting[0])
		s.out.Bulk(setting[1])
	}
	return nil
}

// info is INFO: all sections, or those that are named. Under the names of Redis stand the counters of
// INCR and SET, which are what its commands see; hits have names of their own.
func (s *session) info(args [][]byte) error {
	pool := s.server.service.Pools.Admin
	if err := pool.Enter(s.caller, 1); err != nil {
		return err
	}
	defer pool.Leave(s.caller, 1)
	of, err := s.server.service.Stats(s.caller)
	if err != nil {
		return err
	}
	door, kept := s.server.Figures(), s.server.counters.Stats()
	var b strings.Builder
	for _, section := range []struct{ name, text string }{
		{"Server", fmt.Sprintf("redis_version:%s\r\nweir_version:%s\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n", spokenVersion, of.Version, of.UptimeS)},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\nmaxclients:%d\r\n", door.Open, door.Bound)},
		{"Memory", fmt.Sprintf("used_memory:%d\r\nmaxmemory:%d\r\nmaxmemory_policy:noeviction\r\nhits_memory:%d\r\nhits_maxmemory:%d\r\n",
			kept.Bytes, kept.Bound, of.MemoryBytes, of.MemoryBudget)},
		{"Persistence", fmt.Sprintf("loading:0\r\nhits_durable:%d\r\ncounters_durable:0\r\n", bit(of.Durable))},
		{"Stats", fmt.Sprintf("total_connections_received:%d\r\ntotal_commands_processed:%d\r\ntotal_error_replies:%d\r\nhits:%d\r\n",
			s.server.accepted.Load(), s.server.sent(), door.Failed, of.Hits)},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
		{"Keyspace", fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0\r\nhit_keys:%d\r\n", kept.Keys, kept.Expiring, of.Keys)},
	} {
		if !named(args[1:], section.name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + section.name + "\r\n" + section.text)
	}
	s.out.Bulk(b.String())
	return nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// named tells whether a section is asked for.
func named(sections [][]byte, name string) bool {
	if len(sections) == 0 {
		return true
	}
	for _, section := range sections {
		if argument.Is(section, name) || argument.Is(section, "all") || argument.Is(section, "default") || argument.Is(section, "everything") {
			return true
		}
	}
	return false
}
