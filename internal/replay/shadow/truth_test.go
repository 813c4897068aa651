package shadow

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// testStart is when made-up logs begin: a moment within a minute, an hour and a day.
const testStart = 1_769_862_417

// madeUp is a log of requests of a few hosts, in bursts, with late lines.
func madeUp(seed uint64, lines int, weighted bool) (log []ask) {
	r := rand.New(rand.NewPCG(seed, 1))
	at := int64(testStart)
	for range lines {
		switch r.IntN(40) {
		case 0:
			at += r.Int64N(200)
		case 1, 2, 3, 4, 5, 6, 7, 8, 9:
			at += r.Int64N(3)
		}
		a := ask{at: at, n: 1, keys: []string{fmt.Sprintf("ip:10.0.0.%d", min(r.IntN(9), r.IntN(9)))}}
		if r.IntN(12) == 0 {
			a.at -= r.Int64N(20)
		}
		if weighted {
			a.n = 1 + r.IntN(9)/8*r.IntN(30)
		}
		a.keys = append(a.keys, fmt.Sprintf("url:/%d", r.IntN(4)))
		log = append(log, a)
	}
	return log
}

var testLimits = map[string][]modelLimit{
	"one": {{name: "ip", prefix: "ip:", limit: engine.Limit{N: 5, Per: time.Minute, Burst: 5}}},
	"large window and override": {
		{name: "ip", prefix: "ip:", limit: engine.Limit{N: 40, Per: time.Minute, Burst: 40}, overrides: map[string]engine.Limit{"ip:10.0.0.1": {N: 3, Per: time.Minute, Burst: 3}}},
	},
	"never reached": {{name: "ip", prefix: "ip:", limit: engine.Limit{N: 100_000, Per: time.Minute, Burst: 100_000}}},
	"fixed":         {{name: "ip", prefix: "ip:", limit: engine.Limit{N: 12, Per: time.Minute, Burst: 12, Algorithm: limit.Fixed}}},
	"gcra":          {{name: "ip", prefix: "ip:", limit: engine.Limit{N: 30, Per: time.Minute, Burst: 10, Algorithm: limit.GCRA}}},
	"burst":         {{name: "ip", prefix: "ip:", limit: engine.Limit{N: 12, Per: time.Minute, Burst: 4}}},
	"all or none": {
		{name: "ip", prefix: "ip:", limit: engine.Limit{N: 25, Per: 90 * time.Second, Burst: 25}},
		{name: "url", prefix: "url:", limit: engine.Limit{N: 30, Per: time.Minute, Burst: 30, Algorithm: limit.GCRA}},
		{name: "url0", prefix: "url:/0", limit: engine.Limit{N: 10, Per: 30 * time.Second, Burst: 10}},
	},
	"shadow": {
		{name: "ip", prefix: "ip:", limit: engine.Limit{N: 10, Per: time.Minute, Burst: 10}, shadow: true},
		{name: "url", prefix: "url:", limit: engine.Limit{N: 30, Per: time.Minute, Burst: 30}},
	},
}

func policyText(limits []modelLimit) string {
	var b strings.Builder
	b.WriteString("limits:\n")
	for _, l := range limits {
		fmt.Fprintf(&b, "  - name: %s\n    keys: %q\n    limit: %d\n    per: %s\n    burst: %d\n    algorithm: %s\n",
			l.name, l.prefix+"*", l.limit.N, units.FormatDuration(l.limit.Per), l.limit.Burst, l.limit.Algorithm)
		if l.shadow {
			b.WriteString("    mode: shadow\n")
		}
		if len(l.overrides) > 0 {
			b.WriteString("    overrides:\n")
		}
		for key, o := range l.overrides {
			fmt.Fprintf(&b, "      - key: %q\n        limit: %d\n        per: %s\n        burst: %d\n", key, o.N, units.FormatDuration(o.Per), o.Burst)
		}
	}
	return b.String()
}

func policies(t testing.TB, text string) *policy.Set {
	t.Helper()
	set, err := policy.Parse("policies.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// clf, jsonLines and tsv write a log in the formats. tsv has only the first key of a line.
func clf(log []ask) []byte {
	var b bytes.Buffer
	for _, a := range log {
		for range a.n {
			fmt.Fprintf(&b, "%s - - [%s] \"GET %s HTTP/1.1\" 200 5\n", a.keys[0][len("ip:"):],
				time.Unix(a.at, 0).UTC().Format("02/Jan/2006:15:04:05 -0700"), a.keys[1][len("url:"):])
		}
	}
	return b.Bytes()
}

func jsonLines(log []ask) []byte {
	var b bytes.Buffer
	for _, a := range log {
		fmt.Fprintf(&b, `{"ts":%d,"n":%d,"ip":%q,"path":%q}`+"\n", a.at, a.n, a.keys[0][len("ip:"):], a.keys[1][len("url:"):])
	}
	return b.Bytes()
}

func tsv(log []ask) []byte {
	var b bytes.Buffer
	for _, a := range log {
		fmt.Fprintf(&b, "%d\t%d\t%s\n", a.at, a.n, a.keys[0])
	}
	return b.Bytes()
}

func runOn(t testing.TB, text []byte, o Options) (*Report, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Log.Files = []string{name}
	o.PolicyFile = "policies.yaml"
	r, err := Run(context.Background(), o)
	if r != nil {
		r.Files[0].Name = "access.log"
	}
	return r, err
}

// Answers against the model, for all algorithms, alone and together.
func TestTruth(t *testing.T) {
	for name, limits := range testLimits {
		for _, weighted := range []bool{false, true} {
			for seed := range uint64(2) {
				t.Run(fmt.Sprintf("%s/weighted=%v/%d", name, weighted, seed), func(t *testing.T) {
					log := madeUp(seed, 500, weighted)
					text, keys := clf(log), []string{"ip:{host}", "url:{path}"}
					if weighted {
						text, keys = jsonLines(log), []string{"ip:{ip}", "url:{path}"}
					}
					checkTruth(t, limits, log, text, keys)
				})
			}
		}
	}
}

func checkTruth(t *testing.T, limits []modelLimit, log []ask, text []byte, keys []string) {
	t.Helper()
	asWritten := slices.ContainsFunc(limits, func(l modelLimit) bool { return l.shadow })
	r, err := runOn(t, text, Options{
		Log: replay.Options{Keys: keys}, Policies: policies(t, policyText(limits)),
		AsWritten: asWritten, Top: MaxTop,
	})
	if err != nil {
		t.Fatal(err)
	}
	m := runModel(limits, log)
	if m.denied == 0 && !strings.HasPrefix(t.Name(), "TestTruth/never") {
		t.Error("nothing was denied: the log tests nothing")
	}
	equal(t, "requests", r.Requests, m.requests)
	equal(t, "unmatched", r.Unmatched, m.unmatched)
	equal(t, "allowed", r.Allowed, m.allowed)
	equal(t, "denied", r.Denied, m.denied)
	equal(t, "late", r.LatestSeconds, m.latest)
	if len(r.Approximate) > 0 {
		t.Errorf("approximate: %q", r.Approximate)
	}
	for i := range limits {
		checkLimit(t, m, &limits[i], &r.Limits[i])
	}
}

func equal[A, B int | int64 | uint64](t *testing.T, what string, got A, want B) {
	t.Helper()
	if int64(got) != int64(want) {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func checkLimit(t *testing.T, m *model, l *modelLimit, got *Limit) {
	t.Helper()
	var asked, admitted, denied, elsewhere, plain int
	var denials []int64
	top, at := 0, int64(0)
	for key, k := range m.keys[l.name] {
		asked, admitted, denied, elsewhere = asked+len(k.asked), admitted+len(k.admitted), denied+len(k.denied), elsewhere+k.elsewhere
		denials = append(denials, k.denied...)
		if _, other := l.overrides[key]; other {
			continue
		}
		plain += len(k.asked)
		if n, end := peak(k.asked, l.limit); n > top || n == top && end < at {
			top, at = n, end
		}
	}
	equal(t, l.name+" requests", got.Requests, asked)
	equal(t, l.name+" allowed", got.Allowed, admitted)
	equal(t, l.name+" denied", got.Denied, denied)
	equal(t, l.name+" elsewhere", got.Elsewhere, elsewhere)
	equal(t, l.name+" keys", got.DistinctKeys, len(m.keys[l.name]))
	equal(t, l.name+" peak", got.Peak.Requests, top)
	equal(t, l.name+" peak at", got.Peak.At.Unix(), at)
	keys := m.mostDenied(l)
	equal(t, l.name+" denied keys", got.DeniedKeys, len(keys))
	if len(got.Top) != len(keys) {
		t.Fatalf("%s: %d keys, want %v", l.name, len(got.Top), keys)
	}
	for i, key := range keys {
		k, have := m.keys[l.name][key], got.Top[i]
		if have.Key != key {
			t.Fatalf("%s: %d most denied is %s, want %s", l.name, i, have.Key, key)
		}
		equal(t, key+" requests", have.Requests, len(k.asked))
		equal(t, key+" denied", have.Denied, len(k.denied))
		equal(t, key+" first", have.FirstDenial.Unix(), k.denied[0])
		equal(t, key+" last", have.LastDenial.Unix(), k.denied[len(k.denied)-1])
		equal(t, key+" stretch", have.LongestSeconds, stretch(k.denied, l.limitOf(key)))
		n, end := peak(k.asked, l.limitOf(key))
		equal(t, key+" peak", have.Peak.Requests, n)
		equal(t, key+" peak at", have.Peak.At.Unix(), end)
	}
	checkTimes(t, l, got, denials)
	checkNeeds(t, m, l, got, plain)
}

// checkTimes holds the times of denials against all of them.
func checkTimes(t *testing.T, l *modelLimit, got *Limit, denials []int64) {
	t.Helper()
	if len(denials) > 0 {
		most, at := worstMinute(denials)
		equal(t, l.name+" worst minute", got.WorstMinute.Denied, most)
		equal(t, l.name+" worst minute at", got.WorstMinute.At.Unix(), at)
		equal(t, l.name+" first", got.FirstDenial.Unix(), slices.Min(denials))
		equal(t, l.name+" last", got.LastDenial.Unix(), slices.Max(denials))
	}
	line := got.Timeline
	want := make([]uint64, len(line.Denied))
	for _, at := range denials {
		want[(at-line.Start.Unix())/line.BucketSeconds]++
	}
	if !slices.Equal(line.Denied, want) {
		t.Errorf("%s: over time %v, want %v", l.name, line.Denied, want)
	}
}

// checkNeeds looks for the smallest limit by trying them all.
func checkNeeds(t *testing.T, m *model, l *modelLimit, got *Limit, plain int) {
	t.Helper()
	if len(got.Needs) != 2 {
		t.Fatalf("%s: needs %v %s", l.name, got.Needs, got.NeedsUnknown)
	}
	for i, share := range []float64{0, 0.01} {
		most := int(math.Floor(share * float64(plain)))
		unit := gcd(l.limit.N, l.limit.Burst)
		n, burst := l.limit.N, l.limit.Burst
		denied := m.deniedAlone(l, n, burst)
		orLess := denied <= most
		for denied > most {
			n, burst = n+l.limit.N/unit, burst+l.limit.Burst/unit
			denied = m.deniedAlone(l, n, burst)
		}
		if need := got.Needs[i]; need != (Need{Share: share, N: n, Burst: burst, Denied: uint64(denied), OrLess: orLess}) {
			t.Errorf("%s: need %+v, want %d burst %d, which denies %d, or less: %v", l.name, need, n, burst, denied, orLess)
		}
	}
}
