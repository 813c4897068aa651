package access

import (
	"testing"

	"github.com/weir-counter/weir/internal/auth"
)

func TestOpenToOthers(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": false, "127.9.9.9:1": false, "[::1]:8080": false, "[::ffff:127.0.0.1]:80": false,
		"0.0.0.0:8080": true, "[::]:8080": true, "10.0.0.1:8080": true, "": false,
	} {
		if got := OpenToOthers(addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

// One address does not fill a pool for everybody else, and an identity has one share wherever it calls from.
func TestShareOfEverybody(t *testing.T) {
	everybody := auth.NewPublic("everybody at example.com", "example.com:", auth.Ceilings{})
	one, other := CallerAt("192.0.2.1:1"), CallerAt("192.0.2.2:1")
	for _, c := range []struct {
		login  *auth.Login
		others bool
	}{{everybody, true}, {nil, true}, {&auth.Login{Identity: &auth.Identity{Name: "a"}}, false}} {
		p := NewPools(PoolBounds{InFlight: 8}).Questions
		for p.Enter(one.As(c.login), 1) == nil {
		}
		if err := p.Enter(other.As(c.login), 1); (err == nil) != c.others {
			t.Errorf("%v: another address has %v", c.login, err)
		}
		for range 8 {
			_ = p.Enter(CallerAt("192.0.2.3:1").As(c.login), 1)
		}
		if got := p.Stats(); got.InUse > got.Bound {
			t.Errorf("%+v", got)
		}
	}
}
