package test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubernetes stands for a cluster of Kubernetes: its controller of StatefulSets, its kubelets and its DNS. A pod is a process that
// sees only its own files, as the user of the pod, with an address of its own on loopback. A new pod has a new address.
//
// What is the same as in Kubernetes: environment, arguments, volumes (config maps and secrets change by a swapped link, some time
// after their object), probes and what they cause, SIGTERM and the grace period, restarts of containers in place, names of pods,
// /etc/hosts and /etc/resolv.conf, the order of a StatefulSet's changes (syncSet). What is not: images, and the memory and
// processors that a pod may have.
type kubernetes struct {
	t       *testing.T
	dir     string
	binary  string
	network string // "127.10.20."
	trust   *tls.Config

	mu       sync.Mutex
	now      *objects // as they were applied last
	secrets  map[string]map[string]string
	pods     map[string]*pod // by name
	lastIP   int
	events   []string
	revision string // of the pods that were there before the last change; as status.currentRevision
}

type pod struct {
	k          *kubernetes
	name, ip   string
	root       string // its file system
	revision   string
	spec       corev1.PodSpec
	gone       chan struct{}
	deleting   atomic.Bool
	forced     atomic.Bool // deleted without a grace period, with its machine
	ready      atomic.Bool
	readySince atomic.Int64
	restarts   atomic.Int64
	killed     atomic.Int64 // restarts that a probe caused
	process    atomic.Pointer[os.Process]
	log        *lines
}

// lines keep what a pod has logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	user     = 65532
	clusterD = "counting.svc.cluster.local"
)

func newKubernetes(t *testing.T, binary string, trust *tls.Config) *kubernetes {
	k := &kubernetes{
		t: t, dir: t.TempDir(), binary: binary, trust: trust, pods: map[string]*pod{}, secrets: map[string]map[string]string{},
		network: fmt.Sprintf("127.%d.%d.", 10+rand.IntN(200), rand.IntN(250)), lastIP: 1,
	}
	for dir := k.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) { // for the user of the pods
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(k.binary)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(k.dir, "weir"), program, 0o755)) // pods link it
	k.serveDNS()
	stop := make(chan struct{})
	var syncing sync.WaitGroup
	syncing.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				k.syncSet()
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		syncing.Wait()
		for _, p := range k.all() {
			p.remove(true)
			<-p.gone
			if t.Failed() {
				t.Logf("%s:\n%s", p.name, tail(p.log.String()))
			}
		}
		if t.Failed() {
			t.Log(strings.Join(k.events, "\n"))
		}
	})
	return k
}

// serveDNS answers for the names of the pods, as a headless service with publishNotReadyAddresses does.
func (k *kubernetes) serveDNS() {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		answer := new(dns.Msg).SetReply(r)
		name := strings.TrimSuffix(strings.ToLower(r.Question[0].Name), ".")
		known := false
		for _, p := range k.all() {
			if name == p.name+".weir-headless."+clusterD || name == "weir-headless."+clusterD {
				known = true
				if r.Question[0].Qtype == dns.TypeA {
					answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(p.ip)})
				}
			}
		}
		if !known {
			answer.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(answer) // the resolver asks again
	})
	for _, network := range []string{"udp", "tcp"} {
		started := make(chan struct{})
		s := &dns.Server{Addr: k.network + "250:53", Net: network, Handler: handler, NotifyStartedFunc: func() { close(started) }}
		failed := make(chan error, 1)
		go func() { failed <- s.ListenAndServe() }()
		select {
		case err := <-failed:
			k.t.Fatal(err)
		case <-started:
		}
		k.t.Cleanup(func() { _ = s.Shutdown() })
	}
}

func (k *kubernetes) all() []*pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.pods))
}

func (k *kubernetes) pod(name string) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pods[name]
}

// event notes what happened to a pod. The caller holds k.mu.
func (k *kubernetes) event(format string, args ...any) {
	k.events = append(k.events, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// apply is helm upgrade. Volumes of running pods follow somewhat later.
func (k *kubernetes) apply(values string) {
	k.t.Helper()
	o, err := render(values, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	k.event("apply %s", values)
	if k.now == nil {
		k.revision = revisionOf(o)
	}
	k.now = o
	k.mu.Unlock()
	k.updateVolumes()
}

func (k *kubernetes) setSecret(name string, files map[string]string) {
	k.mu.Lock()
	k.secrets[name] = files
	k.mu.Unlock()
	k.updateVolumes()
}

func (k *kubernetes) updateVolumes() {
	for _, p := range k.all() {
		time.AfterFunc(time.Duration(rand.IntN(2000))*time.Millisecond, func() {
			if !p.deleting.Load() { // volumes of a pod that ends are not updated
				p.mount()
			}
		})
	}
}

func revisionOf(o *objects) string {
	text, err := json.Marshal(o.set.Spec.Template)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:8]
}

// syncSet is one pass of the controller, in the order of updateStatefulSet with podManagementPolicy Parallel: it creates what is
// missing, deletes what is too many, and else deletes one pod of an old revision, the highest ordinal first, if all above are available.
func (k *kubernetes) syncSet() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil {
		return
	}
	set, update := k.now.set, revisionOf(k.now)
	for i := range int(*set.Spec.Replicas) {
		if name := fmt.Sprintf("weir-%d", i); k.pods[name] == nil {
			k.create(name, update)
		}
	}
	names := slices.SortedFunc(maps.Keys(k.pods), func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range names {
		if ordinal(name) >= int(*set.Spec.Replicas) {
			k.delete(k.pods[name], "too many")
		}
	}
	for _, name := range names {
		p := k.pods[name]
		if ordinal(name) >= int(*set.Spec.Replicas) {
			continue
		}
		if p.revision != update {
			k.delete(p, "old revision")
			return
		}
		if since := time.Duration(time.Now().UnixNano() - p.readySince.Load()); !p.ready.Load() || since < time.Duration(set.Spec.MinReadySeconds)*time.Second {
			return
		}
	}
}

func ordinal(name string) (n int) {
	_, _ = fmt.Sscanf(name, "weir-%d", &n)
	return n
}

func (k *kubernetes) delete(p *pod, why string) {
	if !p.deleting.Load() {
		k.event("delete %s (%s), ready: %v", p.name, why, p.ready.Load())
		p.remove(false)
	}
}

// remove ends a pod: with a grace period, or at once with its machine.
func (p *pod) remove(force bool) {
	p.ready.Store(false)
	p.forced.Store(force)
	p.deleting.Store(true)
	process := p.process.Load()
	if process == nil {
		return
	}
	if force {
		_ = process.Kill() // it may have ended
		return
	}
	_ = process.Signal(syscall.SIGTERM)
	grace := time.Duration(*p.spec.TerminationGracePeriodSeconds) * time.Second
	time.AfterFunc(grace, func() {
		select {
		case <-p.gone:
		default:
			p.k.t.Errorf("%s did not end within its grace period of %v", p.name, grace)
			_ = process.Kill()
		}
	})
}

// create starts a pod. The caller holds k.mu.
func (k *kubernetes) create(name, revision string) {
	k.lastIP++
	p := &pod{k: k, name: name, ip: fmt.Sprint(k.network, k.lastIP), revision: revision, spec: k.now.set.Spec.Template.Spec, gone: make(chan struct{}), log: new(lines)}
	p.root = filepath.Join(k.dir, fmt.Sprint(name, ".", k.lastIP))
	k.pods[name] = p
	k.event("create %s at %s, revision %s", name, p.ip, revision)
	files := map[string]string{
		"etc/hosts":       "127.0.0.1 localhost\n" + p.ip + " " + name + ".weir-headless." + clusterD + " " + name + "\n",
		"etc/resolv.conf": "nameserver " + k.network + "250\nsearch " + clusterD + " svc.cluster.local cluster.local\noptions ndots:5\n",
	}
	for file, text := range files {
		must(k.t, os.MkdirAll(filepath.Dir(filepath.Join(p.root, file)), 0o755))
		must(k.t, os.WriteFile(filepath.Join(p.root, file), []byte(text), 0o644))
	}
	must(k.t, os.Link(filepath.Join(k.dir, "weir"), filepath.Join(p.root, "weir")))
	claim := k.claim(name)
	if _, err := os.Stat(claim); err != nil {
		must(k.t, os.MkdirAll(claim, 0o2775))
		must(k.t, os.Chown(claim, 0, user))
		must(k.t, os.Chmod(claim, 0o775|os.ModeSetgid))
	}
	must(k.t, os.Rename(claim, filepath.Join(p.root, "data")))
	go p.run()
}

func (k *kubernetes) claim(name string) string { return filepath.Join(k.dir, "data-"+name) }

// mount writes the files of config maps and secrets as a kubelet does: into a new directory, to which a link is swapped.
func (p *pod) mount() {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	paths := map[string]string{}
	for _, m := range p.spec.Containers[0].VolumeMounts {
		paths[m.Name] = m.MountPath
	}
	for _, v := range p.spec.Volumes {
		files, mode := map[string]string{}, os.FileMode(0o644)
		switch {
		case v.ConfigMap != nil:
			files = maps.Clone(p.k.now.configs[v.ConfigMap.Name].Data)
		case v.Secret != nil:
			files, mode = p.k.secrets[v.Secret.SecretName], os.FileMode(*v.Secret.DefaultMode)
		}
		at := filepath.Join(p.root, paths[v.Name])
		version := fmt.Sprintf("..%d", time.Now().UnixNano())
		must(p.k.t, os.MkdirAll(filepath.Join(at, version), 0o755))
		for name, text := range files {
			file := filepath.Join(at, version, name)
			text = strings.ReplaceAll(text, "0.0.0.0:", p.ip+":") // all pods are on one machine
			must(p.k.t, os.WriteFile(file, []byte(text), mode))
			must(p.k.t, os.Chown(file, 0, user))
			if _, err := os.Lstat(filepath.Join(at, name)); err != nil {
				must(p.k.t, os.Symlink(filepath.Join("..data", name), filepath.Join(at, name)))
			}
		}
		before, _ := os.Readlink(filepath.Join(at, "..data"))
		must(p.k.t, os.Symlink(version, filepath.Join(at, "..data_tmp")))
		must(p.k.t, os.Rename(filepath.Join(at, "..data_tmp"), filepath.Join(at, "..data")))
		if before != "" {
			must(p.k.t, os.RemoveAll(filepath.Join(at, before)))
		}
	}
}

// run starts the container, again whenever it ends, until the pod is deleted.
func (p *pod) run() {
	defer close(p.gone)
	c := p.spec.Containers[0]
	for !p.deleting.Load() {
		if p.restarts.Load() == 0 {
			p.mount()
		}
		command := exec.Command("/weir", c.Args...)
		command.Dir, command.Env, command.Stderr, command.Stdout = "/data", p.env(c), p.log, p.log
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: p.root, Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
		command.Path = "/weir"
		if err := command.Start(); err != nil {
			p.k.t.Errorf("%s: %v", p.name, err)
			return
		}
		p.process.Store(command.Process)
		if p.deleting.Load() { // meanwhile
			_ = command.Process.Signal(syscall.SIGTERM)
		}
		ended := make(chan struct{})
		var probing sync.WaitGroup
		probing.Go(func() { p.probe(c, command.Process, ended) })
		err := command.Wait()
		close(ended)
		probing.Wait()
		p.ready.Store(false)
		p.k.mu.Lock()
		p.k.event("%s ended: %v", p.name, err)
		p.k.mu.Unlock()
		p.restarts.Add(1)
		if err != nil && p.deleting.Load() && !p.forced.Load() {
			p.k.t.Errorf("%s did not stop well: %v\n%s", p.name, err, tail(p.log.String()))
		}
		if p.restarts.Load() > 5 {
			p.k.t.Errorf("%s ends again and again:\n%s", p.name, tail(p.log.String()))
			return
		}
		if !p.deleting.Load() && p.restarts.Load() > 1 {
			<-time.After(time.Second) // as CrashLoopBackOff, but shorter
		}
	}
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if claim := p.k.claim(p.name); !p.forced.Load() {
		must(p.k.t, os.Rename(filepath.Join(p.root, "data"), claim))
	}
	delete(p.k.pods, p.name)
}

func tail(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-30):], "\n")
}

// env is the environment, with references to other variables, and to fields of the pod.
func (p *pod) env(c corev1.Container) (list []string) {
	values := map[string]string{}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = p.name
		}
		for name, text := range values {
			value = strings.ReplaceAll(value, "$("+name+")", text)
		}
		values[e.Name] = value
		list = append(list, e.Name+"="+value)
	}
	return append(list, "HOSTNAME="+p.name)
}

// probe is what a kubelet does with the probes of a container.
func (p *pod) probe(c corev1.Container, process *os.Process, ended <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // as a kubelet
	ask := func(probe *corev1.Probe) bool {
		port := probe.HTTPGet.Port
		for _, named := range c.Ports {
			if named.Name == port.StrVal {
				port = intstr.FromInt32(named.ContainerPort)
			}
		}
		client.Timeout = time.Duration(probe.TimeoutSeconds) * time.Second
		answer, err := client.Get(fmt.Sprintf("%s://%s:%d%s", strings.ToLower(string(probe.HTTPGet.Scheme)), p.ip, port.IntVal, probe.HTTPGet.Path))
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode >= 200 && answer.StatusCode < 400
	}
	failures, every := map[*corev1.Probe]int32{}, 100*time.Millisecond
	started := false
	for n := 1; ; n++ {
		select {
		case <-ended:
			return
		case <-time.After(every):
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if (probe == c.StartupProbe) == started || n%max(1, int(probe.PeriodSeconds)*2) != 0 && probe != c.ReadinessProbe { // five times as often as it says
				continue
			}
			ok := ask(probe)
			switch {
			case ok:
				failures[probe] = 0
			default:
				failures[probe]++
			}
			switch {
			case probe == c.StartupProbe && ok:
				started = true
			case probe == c.ReadinessProbe && ok && !p.ready.Load() && !p.deleting.Load():
				p.readySince.Store(time.Now().UnixNano())
				p.ready.Store(true)
			case probe == c.ReadinessProbe && failures[probe] >= probe.FailureThreshold:
				p.ready.Store(false)
			case probe != c.ReadinessProbe && failures[probe] >= probe.FailureThreshold && !p.deleting.Load():
				p.killed.Add(1)
				p.k.t.Errorf("a probe restarts %s:\n%s", p.name, tail(p.log.String()))
				_ = process.Kill()
				return
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
