package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/testsupport"
)

var binary = flag.String("weir", "", "TestPods runs pods of this static binary, as root (make pods)")

const patience = 3 * time.Minute

// ledger is a client of the service: it sends to any pod that is ready, as long as it runs, and knows what must be counted.
type ledger struct {
	k       *kubernetes
	token   string
	clients sync.Map // by the address of a pod
	next    atomic.Uint64
	durable atomic.Uint64 // answered
	sent    atomic.Uint64 // plain hits, answered or not
	plain   atomic.Uint64 // plain hits, answered
}

func (l *ledger) do(p *pod, method, path, body, id string) (status int, text string, err error) {
	client, ok := l.clients.Load(p.ip)
	if !ok {
		client, _ = l.clients.LoadOrStore(p.ip, &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: l.k.trust}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "https://"+p.ip+":8080"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Host = "weir.counting.svc.cluster.local"
	r.Header.Set("Authorization", "Bearer "+l.token)
	if id != "" {
		r.Header.Set("Idempotency-Key", id)
	}
	answer, err := client.(*http.Client).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

// anyReady is an endpoint of the service, or nil.
func (k *kubernetes) anyReady(n uint64) *pod {
	var ready []*pod
	for _, p := range k.all() {
		if p.ready.Load() {
			ready = append(ready, p)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return ready[n%uint64(len(ready))]
}

// during sends hits while do changes something.
func (l *ledger) during(do func()) {
	stop := make(chan struct{})
	var sending sync.WaitGroup
	for range 4 {
		sending.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				l.hitOnce(fmt.Sprint("k", l.next.Add(1)))
			}
		})
	}
	do()
	before := l.durable.Load()
	eventually(l.k.t, "hits are taken", func() bool { return l.durable.Load() > before+50 })
	close(stop)
	sending.Wait()
}

// hitOnce sends a durable hit until it is answered, and a plain one that is not repeated.
func (l *ledger) hitOnce(id string) {
	if p := l.k.anyReady(l.next.Load()); p != nil {
		l.sent.Add(1)
		if status, _, err := l.do(p, http.MethodPost, "/v1/hits", "plain 1", ""); err == nil && status == http.StatusOK {
			l.plain.Add(1)
		}
	}
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		p := l.k.anyReady(l.next.Add(1))
		if p == nil {
			continue
		}
		status, text, err := l.do(p, http.MethodPost, "/v1/hits?durable=true", "durable 1", id)
		if err == nil && status == http.StatusOK && strings.Contains(text, `"counted":1`) {
			l.durable.Add(1)
			return
		}
	}
	l.k.t.Errorf("a durable hit was not taken within %v", patience)
}

// check wants each answered hit on each pod, once.
func (l *ledger) check(what string, nodes int) {
	l.k.t.Helper()
	last := ""
	eventually(l.k.t, what, func() bool {
		last = ""
		ready := 0
		for _, p := range l.k.all() {
			if !p.ready.Load() {
				continue
			}
			ready++
			_, text, err := l.do(p, http.MethodGet, "/v1/count?key=durable&key=plain&window=1h", "", "")
			var answer struct {
				Counts []struct {
					Exact    bool
					Estimate uint64
				}
			}
			if err == nil {
				err = json.Unmarshal([]byte(text), &answer)
			}
			if err != nil || len(answer.Counts) != 2 {
				last += fmt.Sprintf("%s: %s %v; ", p.name, text, err)
				continue
			}
			durable, plain := answer.Counts[0], answer.Counts[1]
			if !durable.Exact || durable.Estimate != l.durable.Load() || plain.Estimate < l.plain.Load() || plain.Estimate > l.sent.Load() {
				last += fmt.Sprintf("%s: %d durable hits of %d, %d plain ones of %d to %d; ", p.name, durable.Estimate, l.durable.Load(), plain.Estimate, l.plain.Load(), l.sent.Load())
			}
		}
		if ready != nodes {
			last += fmt.Sprintf("%d pods are ready", ready)
		}
		if last != "" {
			l.k.t.Logf("%s", last)
		}
		return last == ""
	})
	l.k.t.Logf("%s: %d durable and %d plain hits, each counted once on %d nodes", what, l.durable.Load(), l.plain.Load(), nodes)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(300 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// settled waits until all pods are of the applied revision, and none is wrong about anything.
func (k *kubernetes) settled(l *ledger, nodes int) {
	k.t.Helper()
	eventually(k.t, fmt.Sprintf("%d pods are as they should be", nodes), func() bool {
		all := k.all()
		k.mu.Lock()
		want := revisionOf(k.now)
		k.mu.Unlock()
		for _, p := range all {
			if p.revision != want || !p.ready.Load() {
				return false
			}
			if status, _, err := l.do(p, http.MethodGet, "/readyz?alarms=none", "", ""); err != nil || status != http.StatusOK {
				return false
			}
		}
		return len(all) == nodes
	})
}

// The rendered pods run as processes of this machine: one becomes three and one again by nothing but replicas, and hits that the
// service takes meanwhile count once, on every node.
func TestPods(t *testing.T) {
	l, token := newPods(t)
	k := l.k
	apply := k.applyPods

	apply(1, 5, 1)
	k.settled(l, 1)
	l.during(func() {})
	l.check("one node", 1)
	k.checkLimit(t)

	l.during(func() {
		apply(1, 7, 1)
		eventually(t, "the policies of the config map apply", func() bool {
			_, text, _ := l.do(k.pod("weir-0"), http.MethodGet, "/v1/limits", "", "")
			return strings.Contains(text, `"limit":7`)
		})
		second := &ledger{k: k, token: token("second", "--role", "read")}
		eventually(t, "the tokens of the secret apply", func() bool {
			status, _, _ := second.do(k.pod("weir-0"), http.MethodGet, "/v1/count?key=durable", "", "")
			return status == http.StatusOK
		})
	})
	if n := k.pod("weir-0").restarts.Load(); n != 0 {
		t.Errorf("%d restarts for new files", n)
	}

	for round := 1; round <= 2; round++ {
		l.during(func() { apply(3, 7, round); k.settled(l, 3) })
		l.check("three nodes", 3)
		l.during(func() { apply(3, 7, round+1); k.settled(l, 3) })
		l.check("a rolling update", 3)
		l.during(func() {
			lost := k.pod(fmt.Sprint("weir-", round))
			k.mu.Lock()
			k.event("%s is lost with its volume", lost.name)
			k.mu.Unlock()
			lost.remove(true)
			<-lost.gone
			l.lostWith(lost)
			k.settled(l, 3)
		})
		l.check("a lost node with its volume", 3)
		l.during(func() { apply(1, 7, round+1); k.settled(l, 1) })
		l.check("one node again", 1)
		for i := 1; i < 3; i++ {
			must(t, os.RemoveAll(k.claim(fmt.Sprint("weir-", i)))) // kubectl delete pvc
		}
	}
}

// A cluster begins with three nodes, becomes four, and three again.
func TestPodsOfCluster(t *testing.T) {
	l, _ := newPods(t)
	k := l.k
	k.applyPods(3, 5, 1)
	k.settled(l, 3)
	k.checkLimit(t)
	l.during(func() { k.applyPods(4, 5, 1); k.settled(l, 4) })
	l.check("four nodes", 4)
	l.during(func() {
		k.applyPods(3, 5, 1)
		eventually(t, "weir cluster remove weir-3", func() bool {
			status, _, _ := l.do(k.pod("weir-0"), http.MethodDelete, "/v1/cluster/nodes/weir-3", "", "")
			return status == http.StatusOK // 409 while it runs
		})
		k.settled(l, 3)
	})
	l.check("three nodes again", 3)
}

// newPods is a cluster of Kubernetes with the secrets of the chart. token creates tokens.
func newPods(t *testing.T) (l *ledger, token func(args ...string) string) {
	t.Helper()
	if *binary == "" {
		t.Skip("make pods runs it")
	}
	if os.Getuid() != 0 {
		testsupport.Missing(t, "root")
	}
	authority, files := issue(t)
	k := newKubernetes(t, *binary, &tls.Config{RootCAs: authority, ServerName: "weir"})
	k.setSecret("weir-tls", files)
	k.setSecret("weir-cluster", map[string]string{"secret": "a secret that is used by tests only"})
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	token = func(args ...string) string {
		t.Helper()
		out, err := exec.Command(*binary, append([]string{"token", "create", "--tokens", tokens}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(tokens)
		if err != nil {
			t.Fatal(err)
		}
		k.setSecret("weir-tokens", map[string]string{"tokens.yaml": string(text)})
		return strings.TrimSpace(string(out))
	}
	return &ledger{k: k, token: token("ops", "--role", "read,ingest,decide,admin")}, token
}

// applyPods is helm upgrade with so many replicas, a limit in the policies, and another annotation for a rolling update.
func (k *kubernetes) applyPods(replicas, limit, round int) {
	k.t.Helper()
	const values = `{replicas: %d, memory: 64MiB, limitMemory: 16MiB, idempotencyMemory: 16MiB, storage: {maxDisk: 2GiB}, tls: {source: secret, secretName: weir-tls}, tokens: {secretName: weir-tokens},
  policies: {limits: [{name: login, keys: "login:*", limit: %d, per: 1h}]}, settings: {snapshot-every: 64KiB}, podAnnotations: {round: "%d"}}`
	k.apply(fmt.Sprintf(values, replicas, limit, round))
}

// lostWith forgets plain hits: those of the last flush interval of a node that is lost are lost.
func (l *ledger) lostWith(*pod) { l.plain.Store(0) }

// checkLimit wants the memory limit that the process says that it takes at most.
func (k *kubernetes) checkLimit(t *testing.T) {
	t.Helper()
	if p := k.pod("weir-0"); !strings.Contains(p.log.String(), "process="+k.limit()) {
		t.Errorf("the limit of %s is not what the process says that it takes at most:\n%s", k.limit(), p.log)
	}
}

// limit is the memory limit of the pods as Weir writes sizes.
func (k *kubernetes) limit() string {
	return strings.Replace(k.now.set.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(), "Mi", "MiB", 1)
}

// issue makes a secret as cert-manager does, with the names that the chart asks for.
func issue(t *testing.T) (*x509.CertPool, map[string]string) {
	t.Helper()
	o, err := render(matrix[1].values, nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(c, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) []byte {
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), byKey)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	authorityKey, key := newKey(), newKey()
	authority := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}
	root := sign(authority, authority, authorityKey, authorityKey)
	leaf := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "weir"}, DNSNames: o.certificates["weir-tls"].Spec.DNSNames,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, authority, key, authorityKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(text("CERTIFICATE", root)))
	return pool, map[string]string{"ca.crt": text("CERTIFICATE", root), "tls.crt": text("CERTIFICATE", leaf), "tls.key": text("EC PRIVATE KEY", der)}
}
