package admit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// levels is a user within a team within an organisation.
const levels = `limits:
- {name: org,  keys: "api:{org}:{team}:{user}", by: "org:{org}",               limit: 12, per: 1s}
- {name: team, keys: "api:{org}:{team}:{user}", by: "team:{org}:{team}",       limit: 6,  per: 1s}
- {name: user, keys: "api:{org}:{team}:{user}", by: "user:{org}:{team}:{user}", limit: 3,  per: 1s}
`

// A request passes if, by brute force over all that was admitted, each of its levels has space, and takes of all or none. While no more teams
// ask at once than the organisation's limit has theirs, no team is denied because of another: and so for users within a team.
func TestLevels(t *testing.T) {
	for seed := range uint64(20) {
		passed := time.Duration(0)
		l := levelsLive(t, levels, &passed)
		random := rand.New(rand.NewPCG(seed, 3))
		teams := 2 + int(seed%2) // 2 of 6 fit into 12; of 3 one may take what another needs
		users := 2 + int(seed/2%2)
		var d Decision
		admitted := map[string][]time.Duration{}
		denied := map[string]int{}
		for range 1500 {
			passed += time.Duration(random.IntN(120)) * time.Millisecond / 4
			team := fmt.Sprintf("t%d", random.IntN(teams))
			user := fmt.Sprintf("%s:u%d", team, random.IntN(users))
			counted := []string{"org:o", "team:o:" + team, "user:o:" + user}
			space := true
			for i, most := range []int{12, 6, 3} {
				n := 0
				for _, at := range admitted[counted[i]] {
					if at > passed-time.Second {
						n++
					}
				}
				space = space && n < most
			}
			if err := l.Take([]Request{{Key: "api:o:" + user, N: 1}}, &d); err != nil || d.Allowed != space || len(d.Results) != 3 {
				t.Fatalf("seed %d: %s at %v: %+v, %v, want %v", seed, user, passed, d, err, space)
			}
			for i := range d.Results {
				if !d.Results[i].Allowed && (i == 2 || d.Results[i+1].Allowed) {
					denied[d.Results[i].Name]++ // which the level below would have let pass
				}
				if d.Allowed {
					admitted[counted[i]] = append(admitted[counted[i]], passed)
				}
			}
		}
		if (denied["org"] > 0) != (teams > 2) || (denied["team"] > 0) != (users > 2) || denied["user"] == 0 {
			t.Errorf("seed %d: %d teams of %d users: denied by %v", seed, teams, users, denied)
		}
	}
}

func levelsLive(t *testing.T, text string, passed *time.Duration) *Live {
	t.Helper()
	begun := time.Unix(1_769_860_800, 0)
	return liveOn(t, engine.Config{Now: func() time.Time { return begun.Add(*passed) }}, text)
}

// A policy with a cost takes what the request says by that name, another one n, all or none; the error says so to who does not.
func TestCost(t *testing.T) {
	passed := time.Duration(0)
	l := levelsLive(t, "limits:\n- {name: calls, keys: \"llm:*\", limit: 3, per: 1m}\n- {name: tpm, keys: \"llm:*\", limit: 1000, per: 1m, cost: tokens}\n", &passed)
	var d Decision
	ask := func(tokens uint64) *Decision {
		if err := l.Take([]Request{{Key: "llm:7", N: 1, Costs: []Cost{{"images", 9}, {"tokens", tokens}}}}, &d); err != nil {
			t.Fatal(err)
		}
		return &d
	}
	if d := ask(800); !d.Allowed || d.Results[0].Remaining != 2 || d.Results[1].Remaining != 200 || d.Results[1].N != 800 {
		t.Errorf("%+v", d)
	}
	if d := ask(201); d.Allowed || d.Denied.Name != "tpm" {
		t.Errorf("%+v", d)
	}
	if d := ask(200); !d.Allowed || d.Results[0].Remaining != 1 || d.Results[1].Remaining != 0 {
		t.Errorf("%+v", d)
	}
	made, err := l.Refund([]Request{{Key: "llm:7", N: 1, Costs: []Cost{{"tokens", 200}}}}, time.Time{}, "", "")
	if err != nil || len(made) != 2 || made[0].Freed != 1 || made[1].Freed != 200 {
		t.Errorf("%+v, %v", made, err)
	}
	var wrong *engine.Error
	if err := l.Take([]Request{{Key: "llm:7", N: 1}}, &d); !errors.As(err, &wrong) || wrong.Code != api.CodeInvalidCount || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("%v", err)
	}
	costs := []Cost{{"tokens", 5}}
	r := engine.Reservation{ID: "r", Until: l.engine.Now().Add(time.Minute)}
	both := engine.Reservation{ID: "both", Until: r.Until}
	if err := l.Reserve([]Request{{Key: "llm:7", N: 1, Costs: costs}}, both, &d); err != nil || !d.Allowed || len(l.engine.Limits().Reserved("both")) != 2 || l.engine.Limits().Reserved("both")[0].Parts != 2 || l.engine.Limits().Reserved("both")[1].Parts != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := l.Settle("both", Used{Costs: []Cost{{Requests, 0}}}, false, nil); !errors.As(err, &wrong) || wrong.Code != api.CodeInvalidCount {
		t.Errorf("%v", err)
	}
	made, err = l.Settle("both", Used{Costs: []Cost{{Requests, 0}, {"tokens", 2}}}, false, nil)
	if err != nil || len(made) != 2 || made[0].Used+made[1].Used != 2 || made[0].Freed+made[1].Freed != 1+3 {
		t.Errorf("%+v, %v", made, err)
	}
	if err := l.Reserve([]Request{{Key: "llm:7", Limit: "tpm", N: 1, Costs: costs}}, r, &d); err != nil || !d.Allowed || l.engine.Limits().Reserved("r")[0].N != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := policy.Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k\", limit: 1, per: 1s, cost: \"to kens\"}\n")); err == nil {
		t.Error("a cost of two words is good")
	}
}
