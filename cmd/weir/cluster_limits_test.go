package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// limitPolicies are never over in a cluster. The first is by default.
const limitPolicies = `limits:
  - {name: ring, keys: "r:*", limit: 12, per: 1s}
  - {name: slots, keys: "s:*", limit: 150, per: 1s}
  - {name: long, keys: "l:*", limit: 600, per: 20s, where: leased}
  - {name: bucket, keys: "b:*", limit: 150, per: 1s, algorithm: gcra, where: leased}
  - {name: strict, keys: "t:*", limit: 40, per: 2s, where: strict}
  - {name: jobs, keys: "j:*", max: 3, ttl: 4s}
`

// adversary asks for admissions at one node and then at another, over HTTP, Envoy's gRPC and RESP.
type adversary struct {
	c          *processes
	keys       []string
	http       http.Client
	resp, grpc []string // addresses of the nodes
	envoy      []pb.RateLimitServiceClient

	mu       sync.Mutex
	admitted map[string][]span
	denied   int
	failed   int
	answered [protocols]int
}

// The protocols.
const (
	overHTTP = iota
	overGRPC
	overRESP
	protocols
)

// span is when an admission was made: between two times, in Unix ns.
type span struct{ before, after int64 }

func (a *adversary) run(seed uint64, ended <-chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 6))
	for protocol := int(seed); ; protocol++ { // in turns: on a slow disk there are few of them
		i, key, protocol := random.IntN(clusterSize), a.keys[random.IntN(len(a.keys))], protocol%protocols
		for range 1 + random.IntN(80) {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			if !a.ask(i, protocol, key) {
				break
			}
		}
	}
}

// ask asks a node once, and tells whether it answered.
func (a *adversary) ask(i, protocol int, key string) bool {
	p := a.c.nodes[i].Load()
	if p == nil {
		return false
	}
	before := time.Now().UnixNano()
	var allowed bool
	var err error
	switch protocol {
	case overHTTP:
		allowed, err = a.askHTTP(p.addr, key)
	case overGRPC:
		allowed, err = a.askGRPC(i, key)
	case overRESP:
		allowed, err = a.askRESP(i, key)
	}
	after := time.Now().UnixNano()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.failed++
		return false
	case allowed:
		a.admitted[key] = append(a.admitted[key], span{before, after})
	default:
		a.denied++
	}
	a.answered[protocol]++
	return true
}

func (a *adversary) askHTTP(addr, key string) (allowed bool, err error) {
	answer, err := a.http.Post("http://"+addr+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
		err = errors.New(answer.Status)
	}
	return answer.StatusCode == http.StatusOK, err
}

// askGRPC asks for a domain and an entry without a value, which are the key.
func (a *adversary) askGRPC(i int, key string) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.http.Timeout)
	defer cancel()
	domain, entry, _ := strings.Cut(key, ":")
	answer, err := a.envoy[i].ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: entry}}},
	}})
	return answer.GetOverallCode() == pb.RateLimitResponse_OK, err
}

func (a *adversary) askRESP(i int, key string) (allowed bool, err error) {
	conn, err := net.DialTimeout("tcp", a.resp[i], a.http.Timeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(a.http.Timeout)); err != nil {
		return false, err
	}
	if _, err := fmt.Fprintf(conn, "ALLOW %s\r\n", key); err != nil {
		return false, err
	}
	var fields, first int
	_, err = fmt.Fscanf(conn, "*%d\r\n:%d\r\n", &fields, &first) // -ERR of what could not be decided
	return first == 1, err
}

// connect makes the clients for Envoy's gRPC. They connect by themselves.
func (a *adversary) connect(t *testing.T) {
	for _, addr := range a.grpc {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		a.envoy = append(a.envoy, pb.NewRateLimitServiceClient(conn))
	}
}

// most is the most admissions of a key that were surely within one interval: by brute force, each
// interval that ends at an admission.
func (a *adversary) most(key string, interval time.Duration) (most uint64) {
	all := a.admitted[key]
	slices.SortFunc(all, func(x, y span) int { return int(x.after - y.after) })
	first := 0
	for i, last := range all {
		for all[first].after <= last.after-int64(interval) { // all before it began earlier still
			first++
		}
		n := uint64(1)
		for k := first; k < i; k++ {
			if all[k].before > last.after-int64(interval) && all[k].after <= last.before {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// permitsOfProcesses asks any node for permits, over HTTP.
type permitsOfProcesses struct {
	*adversary
	random *rand.Rand
}

// send returns 0 for no answer.
func (a *permitsOfProcesses) send(method, path string, answer any) (status int) {
	p := a.c.nodes[a.random.IntN(clusterSize)].Load()
	if p == nil {
		return 0
	}
	request, err := http.NewRequest(method, "http://"+p.addr+"/v1/permits"+path, nil)
	if err != nil {
		panic(err) // a URL of this file
	}
	got, err := a.http.Do(request)
	if err != nil {
		return 0
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(answer); err != nil {
		return 0
	}
	return got.StatusCode
}

func (a *permitsOfProcesses) Take(key string) (id string, ok bool) {
	var answer api.PermitAnswer
	status := a.send(http.MethodPost, "?key="+key, &answer)
	return answer.ID, status == http.StatusOK
}

func (a *permitsOfProcesses) Renew(id string) (held, answered bool) {
	var answer api.PermitAnswer
	status := a.send(http.MethodPost, "/"+id+"/heartbeat", &answer)
	return status == http.StatusOK, status == http.StatusOK || status == http.StatusConflict
}

func (a *permitsOfProcesses) Release(id string) {
	var answer api.ReleaseAnswer
	a.send(http.MethodDelete, "/"+id, &answer)
}

// Whatever becomes of the processes, no interval has more than its limit, of all nodes together, and no more hold permits at once than may.
func TestClusterCrashOfLimits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(limitPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	c := newProcesses(t, "--policy", file, "--flush-every", "20ms")
	ports := transporttest.Addrs(t, 2*clusterSize)
	a := &adversary{c: c, admitted: map[string][]span{}, http: http.Client{Timeout: 3 * time.Second}, resp: ports[:clusterSize], grpc: ports[clusterSize:]}
	for i := range clusterSize {
		c.own[i] = append(c.own[i], "--resp", a.resp[i], "--rls", a.grpc[i])
	}
	a.connect(t)
	c.start(0, 1, 2)
	a.http.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	for _, p := range set.Policies() {
		for k := range 2 {
			a.keys = append(a.keys, fmt.Sprint(p.Keys[:2], k))
		}
	}
	over := make(chan struct{})
	var asking sync.WaitGroup
	askers, perRound := 6, 3
	if *clusterRounds == 0 {
		askers, perRound = 2, 1
	}
	for k := range askers {
		asking.Go(func() { a.run(uint64(k), over) })
	}
	var holds transporttest.Holds
	jobs := []string{"j:0", "j:1"}
	for k := range uint64(5) {
		asking.Go(func() {
			holds.Work(t, &permitsOfProcesses{a, rand.New(rand.NewPCG(k, 8))}, jobs, set.Concurrencies()[0].TTL, k, over)
		})
	}
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	c.converge("start")
	cut := fault{name: "cut off for 3 s", do: func(c *processes, i int) {
		c.network.Cut(c.name(i), true)
		<-time.After(3 * time.Second)
		c.network.Cut(c.name(i), false)
	}}
	faults := []fault{killAndRestart, stopAndGoOn, cut}
	for range max(1, *clusterRounds) {
		for _, f := range random.Perm(len(faults))[:perRound] {
			i := random.IntN(clusterSize)
			faults[f].do(c, i)
			t.Logf("%6.2f s to converge after: %s of %s", c.converge(faults[f].name).Seconds(), faults[f].name, c.name(i))
		}
	}
	close(over)
	asking.Wait()
	a.http.CloseIdleConnections()
	t.Logf("%d denied, %d failed, answers over HTTP, gRPC and RESP: %d", a.denied, a.failed, a.answered)
	if most := slices.Max(a.answered[:]); slices.Min(a.answered[:]) == 0 && most > 200 { // below, the disk was slow and its turn did not come
		t.Error("a protocol answered nothing")
	}
	for _, key := range jobs {
		most, all := holds.Most(key)
		if t.Logf("%s: %d at once, of %d; %v", key, most, all, &holds); most > set.Concurrencies()[0].Max {
			t.Errorf("%s: %d held a permit at once, at most %d may", key, most, set.Concurrencies()[0].Max)
		}
	}
	total := 0
	for _, p := range set.Policies() {
		plan, err := limit.New(p.Limit)
		if err != nil {
			t.Fatal(err)
		}
		allowed := p.Limit.Burst
		if p.Limit.Algorithm == limit.GCRA {
			allowed = 2*p.Limit.Burst - 1
		}
		worst, admitted := uint64(0), 0
		for k := range 2 {
			key := fmt.Sprint(p.Keys[:2], k)
			worst, admitted = max(worst, a.most(key, plan.Interval())), admitted+len(a.admitted[key])
		}
		t.Logf("%s: %d admitted, %d within %v, at most %d may be", p.Name, admitted, worst, plan.Interval(), allowed)
		if worst > allowed {
			t.Errorf("%s: %d within %v, at most %d may be", p.Name, worst, plan.Interval(), allowed)
		}
		total += admitted
	}
	if total == 0 { // how often each key is asked for is up to chance and the machine
		t.Error("nothing was admitted")
	}
	c.stop(0, 1, 2)
}
