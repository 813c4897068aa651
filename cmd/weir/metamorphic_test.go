package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/node"
)

var settingsSeeds = flag.Int("settings.seeds", 1, "random settings that TestSettings runs its work under")

// settingsDomain is, for each setting that may not change an answer, what it may be.
// Combinations that are refused at the start are not in it.
var settingsDomain = map[string][]string{
	"--retention":          {"13d", "30d", "60d"}, // more than the work is old: a change carries the directory over
	"--memory":             {"32MiB", "64MiB", "256MiB"},
	"--idempotency-memory": {"1MiB", "64MiB"},
	"--max-inline-per":     {"1h", "24h"},
	"--policies-api":       node.PoliciesAPI,
	"--limit-memory":       {"1MiB", "64MiB"},
	"--max-disk":           {"8GiB", "16GiB", "100GiB"},
	"--snapshot-every":     {"64KiB", "1MiB", "64MiB"},
	"--flush-every":        {"1ms", "20ms", "100ms", "5s", "1m"},
	"--max-ahead":          {"1s", "5s", "1h"},
	"--clock":              {"wall", "event"},
	"--max-in-flight":      {"8", "256"},
	"--max-conns":          {"16", "4096"},
	"--log-format":         {"text", "json"},
	"--log-level":          {"debug", "error"},
	"--durable-timeout":    {"5s", "10s"},
	"--stop-timeout":       {"5s", "15s"},
	"--drain-delay":        {"0s", "1ms"},
	"--history":            {"true", "false"},
	"--history-keep":       {"2d/2d", "400d/3653d"},
	"--history-slot":       {"15m", "1h"},
	"--history-disk":       {"1MiB", "1GiB"},
	"--history-every":      {"100ms", "1m"},
}

// settingsApart are the flags that are not in settingsDomain, by their beginnings: about
// what is kept, where, for whom, and about other nodes.
var settingsApart = []string{
	"--ephemeral", "--accept-damage", "--shrink-retention",
	"--tokens", "--tls-", "--insecure", "--audit-log",
	"--http", "--web", "--resp", "--rls", "--statsd", "--from", "--traces", "--allow-", "--demo", "--data", "--policy", "--config", "--help",
	"--backup-to", "--history-url", "--region", "--link", "--cluster", "--alerts", "--node", "--peers", "--nats", "--replicas", "--move-after",
}

// Every flag of weir serve is tried, or is apart for a reason.
func TestSettingsAreAll(t *testing.T) {
	newServe(&cli.World{}).Flags().VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		excluded := slices.ContainsFunc(settingsApart, func(start string) bool { return strings.HasPrefix(name, start) })
		if len(settingsDomain[name]) == 0 && !excluded {
			t.Errorf("%s: say in settingsDomain what it may be without changing an answer, or in settingsApart that it does", name)
		}
	})
}

// randomSettings chooses some settings, and leaves others at their defaults.
func randomSettings(rng *rand.Rand) []string {
	args := []string{"--shrink-retention"} // no retention there is drops a hit of the model
	for _, name := range slices.Sorted(maps.Keys(settingsDomain)) {
		if values := settingsDomain[name]; rng.IntN(2) == 0 {
			args = append(args, name+"="+values[rng.IntN(len(values))])
		}
	}
	return args
}

// A settingsHit is known to the model by its second.
type settingsHit struct {
	key    string
	n      uint64
	second int64
}

// settingsWork is what one life of a server is asked to do.
type settingsWork struct {
	bodies  []string // of hits, as text
	queries []string // of these bodies: durable, or nothing
	once    []string // their idempotency keys; each of these is sent twice
	allow   []string // keys of decisions
	deleted string   // a key that is deleted before the hits
}

const settingsLives = 3

// newSettingsWork makes the work of all lives, and what every key has in the end.
func newSettingsWork(rng *rand.Rand, end int64) (work [settingsLives]settingsWork, model []settingsHit) {
	for life := range work {
		w := &work[life]
		w.deleted = fmt.Sprint("k", rng.IntN(30))
		model = slices.DeleteFunc(model, func(h settingsHit) bool { return h.key == w.deleted })
		for body := range 12 {
			var lines strings.Builder
			for range 25 {
				h := settingsHit{key: fmt.Sprint("k", min(rng.IntN(30), rng.IntN(30))), n: 1 + rng.Uint64N(9)}
				h.second = end - rng.Int64N(1<<(1+rng.IntN(20))) // up to twelve days ago, most of them late
				model = append(model, h)
				fmt.Fprintf(&lines, "%s %d %d\n", h.key, h.n, h.second)
			}
			w.bodies = append(w.bodies, lines.String())
			w.queries = append(w.queries, []string{"", "?durable=true"}[rng.IntN(2)])
			once := ""
			if rng.IntN(3) == 0 {
				once = fmt.Sprintf("life-%d-body-%d", life, body)
			}
			w.once = append(w.once, once)
		}
		for range 6 {
			w.allow = append(w.allow, fmt.Sprint("user:", rng.IntN(2)))
		}
	}
	return work, model
}

// settingsServer is one server's HTTP.
type settingsServer struct {
	t    *testing.T
	addr string
}

func (s settingsServer) do(method, path, body string, header http.Header) (status int, answer string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// live does the work of one life, and returns how many decisions admitted, by key.
func (s settingsServer) live(w settingsWork, admitted map[string]int) {
	s.t.Helper()
	text, object := http.Header{"Content-Type": {"text/plain"}}, http.Header{"Content-Type": {"application/json"}}
	if status, answer := s.do(http.MethodDelete, "/v1/keys/"+w.deleted, "", nil); status >= 500 {
		s.t.Fatalf("delete: %d %s", status, answer)
	}
	for i, body := range w.bodies {
		header, times := text.Clone(), 1
		if w.once[i] != "" {
			header.Set("Idempotency-Key", w.once[i])
			times = 2
		}
		for range times {
			if status, answer := s.do(http.MethodPost, "/v1/hits"+w.queries[i], body, header); status != http.StatusOK {
				s.t.Fatalf("hits: %d %s", status, answer)
			}
		}
	}
	for _, key := range w.allow {
		status, answer := s.do(http.MethodPost, "/v1/allow", fmt.Sprintf(`{"key":%q,"limit":{"name":"settings","n":5,"per":"1h"}}`, key), object)
		switch status {
		case http.StatusOK:
			admitted[key]++
		case http.StatusTooManyRequests:
		default:
			s.t.Fatalf("allow: %d %s", status, answer)
		}
	}
}

// settingsWindows are asked for, in seconds.
var settingsWindows = []int64{1, 60, 300, 3600, 86400, 604800}

type settingsCount struct {
	Key     string
	WindowS int64 `json:"window_s"`
	Lower   uint64
	Upper   uint64
	Exact   bool
}

// answers asks about every key, all windows, at one instant.
func (s settingsServer) answers(keys []string, end int64) (counts []settingsCount, listed []string) {
	s.t.Helper()
	for chunk := range slices.Chunk(keys, 10) {
		question := url.Values{"key": chunk, "at": {fmt.Sprint(end)}}
		for _, w := range settingsWindows {
			question.Add("window", fmt.Sprint(w))
		}
		status, text := s.do(http.MethodGet, "/v1/count?"+question.Encode(), "", nil)
		var answer struct{ Counts []settingsCount }
		if err := json.Unmarshal([]byte(text), &answer); status != http.StatusOK || err != nil {
			s.t.Fatalf("count: %d %s", status, text)
		}
		counts = append(counts, answer.Counts...)
	}
	status, text := s.do(http.MethodGet, "/v1/keys?prefix=k", "", nil)
	var answer struct{ Keys []string }
	if err := json.Unmarshal([]byte(text), &answer); status != http.StatusOK || err != nil {
		s.t.Fatalf("keys: %d %s", status, text)
	}
	return counts, answer.Keys
}

// The same work gives the same answers under any settings that are not about what is
// kept, also when each life of the server has others: they are the model's.
func TestSettings(t *testing.T) {
	t.Parallel()
	end := time.Now().Unix() - 60
	for seed := range uint64(*settingsSeeds) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			work, model := newSettingsWork(rng, end)
			keys := make([]string, 30)
			for i := range keys {
				keys[i] = fmt.Sprint("k", i)
			}
			dir, admitted := filepath.Join(t.TempDir(), "data"), map[string]int{}
			for life, w := range work {
				args := randomSettings(rng)
				t.Logf("life %d: weir serve %s", life, strings.Join(args, " "))
				serveOnce(t, dir, func(server string) { settingsServer{t, server}.live(w, admitted) }, args...)
			}
			var before []settingsCount
			for range 2 {
				args := randomSettings(rng)
				t.Logf("asked: weir serve %s", strings.Join(args, " "))
				serveOnce(t, dir, func(server string) {
					counts, listed := settingsServer{t, server}.answers(keys, end)
					checkSettings(t, counts, listed, model, end)
					if before != nil && !reflect.DeepEqual(before, counts) {
						t.Errorf("other settings, other answers: %v, before %v", counts, before)
					}
					before = counts
				}, args...)
			}
			for key, n := range admitted {
				asked := 0
				for _, w := range work {
					for _, k := range w.allow {
						if k == key {
							asked++
						}
					}
				}
				if n != min(5, asked) {
					t.Errorf("%s: %d of %d were admitted, of a limit of 5", key, n, asked)
				}
			}
		})
	}
}

// checkSettings holds answers against a list of hits.
func checkSettings(t *testing.T, counts []settingsCount, listed []string, model []settingsHit, end int64) {
	t.Helper()
	known := map[string]bool{}
	for _, h := range model {
		known[h.key] = true
	}
	if want := slices.Sorted(maps.Keys(known)); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
		t.Errorf("keys are %v, want %v", listed, want)
	}
	for _, c := range counts {
		truth := uint64(0)
		for _, h := range model {
			if h.key == c.Key && h.second > end-c.WindowS && h.second <= end {
				truth += h.n
			}
		}
		if truth < c.Lower || truth > c.Upper || c.WindowS <= 300 && !c.Exact {
			t.Errorf("%s in %d s: %d to %d (exact %v), the truth is %d", c.Key, c.WindowS, c.Lower, c.Upper, c.Exact, truth)
		}
	}
}
