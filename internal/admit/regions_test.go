package admit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/policy"
)

// regionsRig is a server alone of each region, all with one file.
func regionsRig(t *testing.T, file string, names ...string) []*rig {
	t.Helper()
	var rigs []*rig
	for _, name := range names {
		r := &rig{t: t}
		r.now.Store(1_700_000_000e9)
		r.engine = newEngine(t, r)
		var err error
		if r.Live, err = NewClusterLive(r.engine, mustParse(t, file), Cluster{Region: name}); err != nil {
			t.Fatal(err)
		}
		rigs = append(rigs, r)
	}
	return rigs
}

// Each region has its part of a limit, one that is not named none; what is rounded down goes to those that lost most.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		burst uint64
		parts string
		want  string
	}{
		{100, "eu: 60%, us: 40%", "eu 60 us 40"},
		{5, "eu: 50%, us: 50%", "eu 3 us 2"},
		{5, "us: 50%, eu: 50%", "us 2 eu 3"},
		{10, "a: 33%, b: 33%, c: 34%", "a 3 b 3 c 4"},
		{10, "a: 33%, b: 33%", "a 3 b 3"},
		{1, "eu: 60%, us: 40%", "eu 1 us 0"},
	} {
		set := mustParse(t, fmt.Sprintf("limits:\n- {name: a, keys: k, limit: 1000000, per: 1s, burst: %d, where: global, regions: {%s}}\n", c.burst, c.parts))
		var got []string
		for _, p := range set.Policies()[0].Parts {
			got = append(got, fmt.Sprint(p.Region, " ", p.Burst))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d by %s: %v, want %s", c.burst, c.parts, got, c.want)
		}
	}
}

// An adversary that goes from region to region, and waits for what comes back, never gets more than the burst within
// the interval, in sum over all regions.
func TestNeverOverInSumOfRegions(t *testing.T) {
	t.Parallel()
	names := []string{"eu", "us", "ap", "none"}
	for _, burst := range []int{1, 5, 16, 50, 333} {
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, uint64(burst)))
			rigs := regionsRig(t, fmt.Sprintf("limits:\n- {name: a, keys: k, limit: %d, per: 1m, where: global, regions: {eu: 50%%, us: 30%%, ap: 20%%}}\n", burst), names...)
			var when []int64 // of each admission
			most, from := 0, 0
			for i := range 40 + 12*burst {
				if rng.IntN(3) == 0 {
					step := rng.Int64N(int64(2 * time.Minute / time.Duration(4*burst)))
					for _, r := range rigs {
						r.now.Add(step)
					}
				}
				at := rng.IntN(len(rigs))
				if i < len(rigs) {
					at = i
				}
				var d Decision
				if err := rigs[at].Take([]Request{{Key: "k", N: 1}}, &d); err != nil {
					t.Fatal(err)
				}
				now := rigs[at].now.Load()
				if d.Allowed {
					when = append(when, now)
				}
				if at == 3 && (d.Allowed || !d.Results[0].NoPart || d.RetryAfter != time.Minute) {
					t.Fatalf("a region without a part: %+v", d)
				}
				for from < len(when) && when[from] <= now-int64(time.Minute) {
					from++
				}
				most = max(most, len(when)-from)
			}
			if most > burst || most < burst/2 {
				t.Errorf("seed %d: %d admissions in a minute, of %d", seed, most, burst)
			}
			if rigs[3].hits("limit:a:denied") == 0 {
				t.Errorf("seed %d: the denials of the region without a part are not counted", seed)
			}
		}
	}
}

// A region without a part takes nothing of the other limits; shadow policies deny nothing, and overrides have parts of their own.
func TestNoPart(t *testing.T) {
	t.Parallel()
	file := "limits:\n" + policyOf("n", "k*", 9, "") + policyOf("g", "k*", 4, ", where: global, regions: {eu: 75%, us: 25%}, overrides: [{key: k2, limit: 8}]") +
		policyOf("s", "s*", 4, ", where: global, regions: {eu: 75%}, mode: shadow")
	rigs := regionsRig(t, file, "eu", "us", "ap")
	rigs[0].expect(rigs[0].take("k1"), "ok n[k1]=ok/8 g[k1]=ok/2")
	rigs[0].expect(rigs[0].take("k2"), "ok n[k2]=ok/8 g[k2]=ok/5")
	rigs[1].expect(rigs[1].take("k1"), "ok n[k1]=ok/8 g[k1]=ok/0")
	rigs[1].expect(rigs[1].take("k2"), "ok n[k2]=ok/8 g[k2]=ok/1")
	for range 2 {
		rigs[2].expect(rigs[2].take("k1"), "no n[k1]=ok/9 g[k1]=no/0 by g retry 1m0s")
	}
	rigs[2].expect(rigs[2].take("s1"), "ok s[s1]=no/0")
	if got := rigs[2].hits("limit:s:shadow_denied"); got != 1 {
		t.Errorf("%d hits of shadow denials", got)
	}
	if _, _, err := rigs[2].Reset("g", "k1"); err == nil || !strings.Contains(err.Error(), "region ap has no part of limit g") {
		t.Errorf("reset: %v", err)
	}
}

// A server of no region refuses limits over regions, and keeps the file before.
func TestGlobalNeedsARegion(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits:\n"+policyOf("old", "k", 1, ""))
	err := r.Replace(mustParse(t, "limits:\n"+policyOf("g", "k", 4, ", where: global, regions: {eu: 75%}")))
	if err == nil || !strings.Contains(err.Error(), "limit g in line 2 is over regions, and this server counts for none: start it with --region") {
		t.Errorf("%v", err)
	}
	r.expect(r.take("k"), "ok old[k]=ok/0")
}

func TestFaultsOfParts(t *testing.T) {
	t.Parallel()
	const remove = "it is for limits over regions: remove it, or write `where: global`"
	for more, want := range map[string]string{
		"where: global":                                     "regions: it is missing: regions decide by themselves, so a limit over all of them needs a part for each, for example `regions: {eu: 60%, us: 40%}`",
		"where: global, regions: []":                        "regions: a list: write the part of each region, for example `regions: {eu: 60%, us: 40%}`",
		"where: global, regions: {eu: 60}":                  "regions.eu: \"60\": write its part of the limit, 1% to 100%, for example `regions: {eu: 60%, us: 40%}`",
		"where: global, regions: {eu: 60%, us: 50%}":        "regions: together they have 110% of the limit: at most 100%",
		"where: global, regions: {eu: 60%, eu: 30%}":        "regions: eu stands twice: remove one",
		"where: global, regions: {a/b: 60%}":                `regions: "a/b": a region's name is 1 to 64 letters, digits, '-', '_' and '.'`,
		"regions: {eu: 60%}":                                "regions: " + remove,
		"where: strict, within: strict":                     "within: " + remove,
		"where: global, regions: {eu: 60%}, within: shared": "within: regions no longer share a limit without parts: remove it, and give each region its part, for example `regions: {eu: 60%, us: 40%}`",
		"where: global, regions: {eu: 60%}, within: node":   `within: "node"; there are leased, strict`,
	} {
		_, err := policy.Parse("p.yaml", []byte("limits:\n- {name: a, keys: k, per: 1m, limit: 10, "+more+"}\n"))
		if err == nil || err.Error() != "p.yaml:2: "+want {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
	}
	set := mustParse(t, "limits:\n- {name: a, keys: k, per: month, limit: 10, where: global, regions: {eu: 60%}}\n")
	if p := set.Policies()[0]; p.Where.String() != "strict" {
		t.Errorf("a quota by the calendar is %s in a region", p.Where)
	}
}
