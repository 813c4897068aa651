package resp

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/service/request"
)

// time is TIME, by the clock of counters: limiters such as throttled keep times that they got from it.
func (s *session) time([][]byte) error {
	now := s.server.clock()
	s.out.Array(2)
	s.out.Bulk(strconv.FormatInt(now.Unix(), 10))
	s.out.Bulk(strconv.Itoa(now.Nanosecond() / 1000))
	return nil
}

// config is CONFIG GET, which clients and benchmarks look at.
func (s *session) config(args [][]byte) error {
	if !ArgumentIs(args[1], "GET") || len(args) < 3 {
		return NewReplyError("ERR", "settings are flags of weir serve: write CONFIG GET pattern")
	}
	cfg := &s.server.cfg
	all := [][2]string{
		{"appendonly", "no"}, {"databases", "1"}, {"maxclients", strconv.Itoa(cfg.MaxConns)}, {"maxmemory", strconv.FormatInt(s.server.counters.Stats().Bound, 10)},
		{"maxmemory-policy", "noeviction"}, {"proto-max-bulk-len", strconv.Itoa(protocolLimits.Bulk)}, {"save", ""}, {"timeout", strconv.Itoa(int(cfg.IdleTimeout / time.Second))},
	}
	matched := all[:0]
	for _, setting := range all {
		if slices.ContainsFunc(args[2:], func(pattern []byte) bool {
			ok, _ := path.Match(strings.ToLower(string(pattern)), setting[0])
			return ok
		}) {
			matched = append(matched, setting)
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
	stats, err := s.server.service.Stats(s.caller)
	if err != nil {
		return err
	}
	listener, kept := s.server.Figures(), s.server.counters.Stats()
	var b strings.Builder
	for _, section := range []struct{ name, text string }{
		{"Server", fmt.Sprintf("redis_version:%s\r\nweir_version:%s\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n", spokenVersion, stats.Version, stats.UptimeS)},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\nmaxclients:%d\r\n", listener.Open, listener.Bound)},
		{"Memory", fmt.Sprintf("used_memory:%d\r\nmaxmemory:%d\r\nmaxmemory_policy:noeviction\r\nhits_memory:%d\r\nhits_maxmemory:%d\r\n",
			kept.Bytes, kept.Bound, stats.MemoryBytes, stats.MemoryBudget)},
		{"Persistence", fmt.Sprintf("loading:0\r\nhits_durable:%d\r\ncounters_durable:%d\r\n", bit(stats.Durable), bit(stats.Durable))},
		{"Stats", fmt.Sprintf("total_connections_received:%d\r\ntotal_commands_processed:%d\r\ntotal_error_replies:%d\r\nhits:%d\r\n",
			s.server.accepted.Load(), s.server.sent(), listener.Failed, stats.Hits)},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
		{"Keyspace", fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0\r\nhit_keys:%d\r\n", kept.Keys, kept.Expiring, stats.Keys)},
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

// named reports whether a section is asked for.
func named(sections [][]byte, name string) bool {
	return len(sections) == 0 || slices.ContainsFunc(sections, func(section []byte) bool {
		return ArgumentIs(section, name) || ArgumentIs(section, "all") || ArgumentIs(section, "default") || ArgumentIs(section, "everything")
	})
}

// resetLimits is RESET with keys: what they have used of limits that requests brought along is forgotten, or of the limit that
// is named. The reply is how many of the keys had used something.
func (s *session) resetLimits(keys [][]byte) error {
	name := ""
	if last := len(keys) - 2; last > 0 && ArgumentIs(keys[last], "NAME") {
		name, keys = string(keys[last+1]), keys[:last]
	}
	if s.multi != nil {
		s.spoilTransaction()
		return NewReplyError("ERR", "RESET of keys can't be in a transaction")
	}
	pool := s.server.service.Pools.Admin
	if err := pool.Enter(s.caller, 1); err != nil {
		return err
	}
	defer pool.Leave(s.caller, 1)
	n := 0
	for _, key := range keys {
		was, err := s.resetLimit(string(key), name)
		if err != nil {
			return err
		}
		if was {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}

func (s *session) resetLimit(key, name string) (was bool, err error) {
	if name == "" {
		used, err := s.server.service.ResetInline(s.ctx, s.caller, key)
		return used > 0, err
	}
	made, err := s.server.service.ResetLimit(s.ctx, s.caller, name, key)
	return made.Was, err
}

// refund is REFUND: the reply is by how many more may pass.
func (s *session) refund(args [][]byte) error {
	var taken time.Time
	if n := len(args); n > 3 && ArgumentIs(args[n-2], "TAKEN") {
		var err error
		if taken, err = request.ParseTime("taken", string(args[n-1])); err != nil {
			return err
		}
		args = args[:n-2]
	}
	a := &s.allowing
	if err := a.read(args[1:]); err != nil {
		return err
	}
	made, err := s.server.service.Refund(s.ctx, s.caller, a.requests, taken, "")
	return s.number(made.Refunded, err)
}

// grant is GRANT: the reply is how many may pass now.
func (s *session) grant(args [][]byte) error {
	n, err := ArgumentCount(args[3], "n", 0)
	if err != nil {
		return err
	}
	var until time.Time
	switch {
	case n > 0 && len(args) == 5:
		length, err := request.ParseWindow("duration", string(args[4]))
		if err != nil {
			return err
		}
		until = s.server.service.Now().Add(length)
	case n > 0 || len(args) > 5:
		return ErrSyntax
	}
	answer, err := s.server.service.GrantLimit(s.ctx, s.caller, string(args[1]), string(args[2]), n, until)
	return s.number(answer.Remaining, err)
}

// ban is BAN: the reply is until when, in Unix ms.
func (s *session) ban(args [][]byte) error {
	length, err := request.ParseWindow("duration", string(args[3]))
	if err != nil {
		return err
	}
	answer, err := s.server.service.BanKey(s.ctx, s.caller, string(args[1]), string(args[2]), length)
	return s.number(uint64(answer.Until.UnixMilli()), err)
}

// unban is UNBAN: the reply is 1 if there was a ban.
func (s *session) unban(args [][]byte) error {
	answer, err := s.server.service.UnbanKey(s.ctx, s.caller, string(args[1]), string(args[2]))
	return s.number(uint64(bit(answer.Was)), err)
}

// mostBans is how many BANS lists at most, as over HTTP.
const mostBans = 1000

// bans is BANS: of each ban the limit, the key, and until when, in Unix ms.
func (s *session) bans(args [][]byte) error {
	n := uint64(100)
	switch {
	case len(args) > 2:
		return ErrSyntax
	case len(args) == 2:
		var err error
		if n, err = ArgumentCount(args[1], "n", 1); err != nil {
			return err
		}
	}
	answer, err := s.server.service.Bans(s.caller, int(min(n, mostBans)))
	if err != nil {
		return err
	}
	s.out.Array(len(answer.Bans))
	for _, b := range answer.Bans {
		s.out.Array(3)
		s.out.Bulk(b.Name)
		s.out.Bulk(b.Key)
		s.out.Int(b.Until.UnixMilli())
	}
	return nil
}
