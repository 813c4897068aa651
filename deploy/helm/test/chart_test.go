// Package test renders the chart of Weir and checks what comes out, and runs the rendered pods as processes of this machine. It is a
// module of its own, so that Helm and Kubernetes are no dependencies of Weir.
package test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const chartDir = "../weir"

var update = flag.Bool("update", false, "write the golden files")

// objects are what a chart renders to, by kind.
type objects struct {
	text         string
	notes        string
	set          *appsv1.StatefulSet
	configs      map[string]*corev1.ConfigMap
	secrets      map[string]*corev1.Secret
	services     map[string]*corev1.Service
	accounts     map[string]*corev1.ServiceAccount
	budgets      map[string]*policyv1.PodDisruptionBudget
	networks     map[string]*networkingv1.NetworkPolicy
	certificates map[string]*certificate
	monitors     map[string]*serviceMonitor
	rules        map[string]*prometheusRule
}

// render decodes strictly: a field that Kubernetes does not know is an error, as is one that is there twice.
func render(values string, with engine.ClientProvider) (*objects, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "weir", Namespace: "counting", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	var files map[string]string
	if with == nil {
		files, err = engine.Render(chart, all)
	} else {
		files, err = engine.RenderWithClientProvider(chart, all, with)
	}
	if err != nil {
		return nil, err
	}
	o := &objects{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			o.notes = files[name]
			continue
		}
		for _, doc := range regexp.MustCompile(`(?m)^---$`).Split(files[name], -1) {
			if err := o.add(doc); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, doc)
			}
		}
	}
	return o, nil
}

func (o *objects) add(doc string) (err error) {
	var is struct{ Kind string }
	if err := yaml.Unmarshal([]byte(doc), &is); err != nil || is.Kind == "" {
		return err
	}
	o.text += "---\n" + strings.TrimSpace(doc) + "\n"
	switch is.Kind {
	case "StatefulSet":
		o.set = new(appsv1.StatefulSet)
		return yaml.UnmarshalStrict([]byte(doc), o.set)
	case "ConfigMap":
		return decode(doc, &o.configs)
	case "Secret":
		return decode(doc, &o.secrets)
	case "Service":
		return decode(doc, &o.services)
	case "ServiceAccount":
		return decode(doc, &o.accounts)
	case "PodDisruptionBudget":
		return decode(doc, &o.budgets)
	case "NetworkPolicy":
		return decode(doc, &o.networks)
	case "Certificate":
		return decode(doc, &o.certificates)
	case "ServiceMonitor":
		return decode(doc, &o.monitors)
	case "PrometheusRule":
		return decode(doc, &o.rules)
	}
	return fmt.Errorf("no test knows a %s", is.Kind)
}

func decode[T any](doc string, into *map[string]*T) error {
	var meta struct{ Metadata struct{ Name string } }
	if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
		return err
	}
	if *into == nil {
		*into = map[string]*T{}
	}
	object := new(T)
	(*into)[meta.Metadata.Name] = object
	return yaml.UnmarshalStrict([]byte(doc), object)
}

// Objects of cert-manager and the Prometheus operator, with the fields that the chart uses.
type (
	meta struct {
		Name                string
		Labels, Annotations map[string]string
	}
	head struct {
		APIVersion, Kind string
		Metadata         meta
	}
	certificate struct {
		head `json:",inline"`
		Spec struct {
			SecretName, Duration string
			IssuerRef            struct{ Name, Kind, Group string }
			Usages, DNSNames     []string
			PrivateKey           struct {
				Algorithm, RotationPolicy string
				Size                      int
			}
		}
	}
	keyOf          struct{ Name, Key string }
	serviceMonitor struct {
		head `json:",inline"`
		Spec struct {
			JobLabel string
			Selector struct {
				MatchLabels      map[string]string
				MatchExpressions []struct{ Key, Operator string }
			}
			Endpoints []struct {
				Port, Interval, Scheme string
				TLSConfig              struct {
					CA         struct{ Secret keyOf }
					ServerName string
				}
				Authorization struct{ Credentials keyOf }
			}
		}
	}
	prometheusRule struct {
		head `json:",inline"`
		Spec map[string]any
	}
)

// matrix are values that the chart must render, by name. The first ones have golden files.
var matrix = []struct{ name, values string }{
	{"one", `insecure: true`},
	{"cluster", `{replicas: 3, memory: 2GiB, tls: {source: certManager, issuerRef: {name: ca, kind: ClusterIssuer}}, tokens: {secretName: weir-tokens},
  policies: {limits: [{name: login, keys: "login:*", limit: 5, per: 1m}]}, listeners: {resp: true, rls: true}, settings: {retention: 7d, replicas: 2},
  serviceMonitor: {enabled: true, tokenSecret: {name: weir-scrape, key: token}}, prometheusRule: {enabled: true}, dashboard: {enabled: true},
  hostNames: [weir.example.org], storage: {className: fast}}`},
	{"nats", `{replicas: 3, insecure: true, nats: {url: "nats://nats.nats:4222", credsSecretName: creds, tlsSecretName: nats-tls}}`},
	{"", `{replicas: 5, insecure: true, listeners: {statsd: true, rls: true}, rlsConfigMap: limits}`},
	{"", `{tls: {source: secret, secretName: web, peersSecretName: peers, clientCA: true}, tokens: {secretName: t, key: file.yaml}, policiesConfigMap: p}`},
	{"", `{insecure: true, networkPolicy: {enabled: false}, resources: {limits: {memory: 1Gi, cpu: 2}, requests: {memory: 1Gi, cpu: 1}}, storage: {size: 10Gi}}`},
	{"", `{insecure: true, image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", pullSecrets: [a, b]}, tolerations: [{key: a, operator: Exists}], nodeSelector: {a: b}, priorityClassName: high, podLabels: {a: b}, podAnnotations: {c: d}}`},
	{"", `{insecure: true, replicas: 3, networkPolicy: {from: [{namespaceSelector: {matchLabels: {a: b}}}]}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}], service: {type: LoadBalancer, annotations: {a: b}}}`},
}

func TestChart(t *testing.T) {
	t.Parallel()
	for _, test := range matrix {
		o, err := render(test.values, nil)
		if err != nil {
			t.Errorf("%s: %v", test.values, err)
			continue
		}
		for _, what := range o.check(settings(t)) {
			t.Errorf("%s\n  %s", test.values, what)
		}
		if test.name != "" {
			golden(t, test.name, o.text)
		}
	}
}

// golden compares with a file. What comes from other files of the repository is left out: it would be a copy.
func golden(t *testing.T, name, text string) {
	t.Helper()
	text = regexp.MustCompile(`(?m)^  weir.json: .*$`).ReplaceAllString(text, "  weir.json: deploy/grafana/weir.json")
	text = regexp.MustCompile(`(?ms)^  groups:.*?(\n---|\z)`).ReplaceAllString(text, "  # deploy/prometheus/weir-rules.yaml$1")
	text = regexp.MustCompile(`(?m)^  secret: .*$`).ReplaceAllString(text, "  secret: random")
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("%s differs from what the chart renders (%v): go test -run TestChart -update, and look at git diff", file, err)
	}
}

// settings are the names of docs/settings.md.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, found := range regexp.MustCompile("(?m)^- `--([a-z-]+)").FindAllSubmatch(page, -1) {
		names[string(found[1])] = true
	}
	return names
}

// check returns what is wrong: what Kubernetes would refuse, or what reviewers of manifests ask for.
func (o *objects) check(settings map[string]bool) (wrong []string) {
	want := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	pod := o.set.Spec.Template
	c := pod.Spec.Containers[0]
	secure, inner := pod.Spec.SecurityContext, c.SecurityContext
	want(len(pod.Spec.Containers) == 1, "one container")
	want(*secure.RunAsNonRoot && *secure.RunAsUser > 10000 && *secure.RunAsGroup > 10000, "another user than root")
	want(secure.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "a seccomp profile")
	want(*inner.ReadOnlyRootFilesystem && !*inner.AllowPrivilegeEscalation && slices.Contains(inner.Capabilities.Drop, "ALL"), "no rights in the container")
	want(!*pod.Spec.AutomountServiceAccountToken && !*pod.Spec.EnableServiceLinks, "no token, and no variables of services")
	image := c.Image[strings.LastIndexByte(c.Image, '/'):]
	want(strings.ContainsAny(image, ":@") && !strings.HasSuffix(image, ":latest"), "a fixed image: %s", c.Image)
	want(!c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(), "resources")
	want(c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) >= 0, "a limit above the request")
	want(c.StartupProbe.HTTPGet.Path == "/healthz" && c.LivenessProbe.HTTPGet.Path == "/healthz" && c.ReadinessProbe.HTTPGet.Path == "/readyz", "probes")
	want(o.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement, "pods that start together")
	want(len(pod.Spec.TopologySpreadConstraints) > 0, "topology spread")
	want((*o.set.Spec.Replicas > 1) == (len(o.budgets) == 1), "a disruption budget for several pods")
	want(pod.Spec.ServiceAccountName != "" && o.accounts[pod.Spec.ServiceAccountName] != nil, "the service account")

	for _, labels := range []map[string]string{pod.Labels} {
		for _, selector := range o.selectors() {
			for k, v := range selector {
				want(labels[k] == v, "the selector %s=%s finds no pod", k, v)
			}
		}
	}
	ports := map[string]corev1.Protocol{}
	for _, p := range c.Ports {
		ports[p.Name] = p.Protocol
		want(len(p.Name) <= 15, "the name %s of a port has at most 15 bytes", p.Name)
	}
	for _, s := range o.services {
		for _, p := range s.Spec.Ports {
			want(p.Name == "cluster" && len(ports) > 0 && o.set.Spec.ServiceName == s.Name || ports[p.TargetPort.StrVal] == p.Protocol, "port %s of service %s is none of the container", p.Name, s.Name)
		}
	}
	for _, n := range o.networks {
		for _, rule := range n.Spec.Ingress {
			for _, p := range rule.Ports {
				want(p.Port.Type == intstr.String && ports[p.Port.StrVal] == *p.Protocol, "port %s of the network policy is none of the container", p.Port)
			}
		}
	}
	volumes := map[string]bool{"data": true}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && strings.HasPrefix(v.ConfigMap.Name, "weir") {
			want(o.configs[v.ConfigMap.Name] != nil, "config map %s is not rendered", v.ConfigMap.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		want(volumes[m.Name], "mount %s has no volume", m.Name)
		want(m.SubPath == "", "mount %s has a subPath, which is never updated", m.Name)
		delete(volumes, m.Name)
	}
	want(len(volumes) == 0, "volumes that are not mounted: %v", volumes)

	var file map[string]any
	if err := yaml.UnmarshalStrict([]byte(o.configs[o.set.Name].Data["weir.yaml"]), &file); err != nil {
		want(false, "weir.yaml: %v", err)
	}
	for name, value := range file {
		want(settings[name], "there is no setting %s", name)
		if path, is := value.(string); is && strings.HasPrefix(path, "/") {
			want(slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
			}), "%s: nothing is mounted at %s", name, path)
		}
	}
	for _, e := range c.Env {
		want(settings[strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.Name, "WEIR_")), "_", "-")], "there is no setting %s", e.Name)
	}
	return append(wrong, o.checkSpace(file)...)
}

func (o *objects) selectors() []map[string]string {
	all := []map[string]string{o.set.Spec.Selector.MatchLabels}
	for _, s := range o.services {
		all = append(all, s.Spec.Selector)
	}
	for _, b := range o.budgets {
		all = append(all, b.Spec.Selector.MatchLabels)
	}
	for _, n := range o.networks {
		all = append(all, n.Spec.PodSelector.MatchLabels)
	}
	return all
}

// checkSpace wants a volume that has space for --max-disk and history.
func (o *objects) checkSpace(file map[string]any) (wrong []string) {
	disk := resource.MustParse(strings.TrimSuffix(file["max-disk"].(string), "B"))
	if size := o.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage(); size.Value() < disk.Value()/4*5 && o.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "10Gi" {
		wrong = append(wrong, fmt.Sprintf("a volume of %s for %s", size, disk.String()))
	}
	return wrong
}

// The alerts and the dashboard are those of deploy/, byte for byte.
func TestOneSource(t *testing.T) {
	t.Parallel()
	o, err := render(matrix[1].values, nil)
	if err != nil {
		t.Fatal(err)
	}
	board, err := os.ReadFile("../../grafana/weir.json")
	if err != nil {
		t.Fatal(err)
	}
	if o.configs["weir-dashboard"].Data["weir.json"] != string(board) {
		t.Error("the dashboard is another one")
	}
	text, err := os.ReadFile("../../prometheus/weir-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	a, _ := yaml.Marshal(want)
	b, _ := yaml.Marshal(o.rules["weir"].Spec)
	if !bytes.Equal(a, b) {
		t.Error("the alerts are other ones")
	}
}

// The compose file has three nodes that know each other, and settings that there are.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type service struct {
		Image, Restart string
		Command        []string
		Environment    map[string]string
		Ports, Volumes []string
		ReadOnly       bool     `json:"read_only"`
		CapDrop        []string `json:"cap_drop"`
		SecurityOpt    []string `json:"security_opt"`
		Grace          string   `json:"stop_grace_period"`
		Secrets        []string
	}
	var file struct {
		Weir        service           `json:"x-weir"`
		Environment map[string]string `json:"x-environment"`
		Services    map[string]service
		Volumes     map[string]struct{}
		Secrets     map[string]struct{ Environment string }
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	known := settings(t)
	for name, s := range file.Services {
		if s.Environment["WEIR_NODE"] != name || !slices.Contains(strings.Split(s.Environment["WEIR_PEERS"], ","), s.Environment["WEIR_CLUSTER_ADDR"]) {
			t.Errorf("%s is %v", name, s.Environment)
		}
		for e := range s.Environment {
			if !known[strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e, "WEIR_")), "_", "-")] {
				t.Errorf("%s: there is no setting %s", name, e)
			}
		}
		if volume, _, _ := strings.Cut(s.Volumes[0], ":"); volume != name || !s.ReadOnly || len(s.CapDrop) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(file.Services) != 3 || len(file.Volumes) != 3 {
		t.Errorf("%d services, %d volumes", len(file.Services), len(file.Volumes))
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, test := range matrix {
		values, err := chartutil.ReadValues([]byte(test.values))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(chartDir, values, "counting", false).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", test.values, m)
			}
		}
	}
}

// What can't work is refused, with what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{``, "set tls.source and tokens.secretName"},
		{`{tls: {source: secret, secretName: a}}`, "or insecure=true"},
		{`{insecure: true, replicas: 2}`, "replicas"},
		{`{insecure: true, memory: 1Gi}`, "memory"},
		{`{insecure: true, image: {tag: latest}}`, "tag"},
		{`{insecure: true, replica: 3}`, "replica"},
		{`{tokens: {secretName: t}, tls: {source: certManager}}`, "tls.issuerRef.name"},
		{`{tokens: {secretName: t}, tls: {source: secret}}`, "tls.secretName"},
		{`{insecure: true, settings: {memory: 1GiB}}`, "settings.memory"},
		{`{insecure: true, rlsConfigMap: a}`, "listeners.rls"},
		{`{insecure: true, policies: {a: b}, policiesConfigMap: a}`, "choose one"},
	} {
		_, err := render(test.values, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.values, err, test.want)
		}
	}
}

// A change of replicas that the running cluster could not follow is refused.
func TestReplicasRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		was, now int
		volumes  []string
		want     string
	}{
		{was: 1, now: 3},
		{was: 1, now: 3, volumes: []string{"data-weir-0"}},
		{was: 1, now: 3, volumes: []string{"data-weir-0", "data-weir-2"}, want: "kubectl delete pvc data-weir-2"},
		{was: 3, now: 5, volumes: []string{"data-weir-0", "data-weir-1", "data-weir-2"}},
		{was: 3, now: 1},
		{was: 5, now: 4},
		{was: 5, now: 3, want: "one node at a time"},
		{was: 4, now: 1, want: "one node at a time"},
		{was: 0, now: 3},
	} {
		_, err := render(fmt.Sprintf(`{insecure: true, replicas: %d}`, test.now), running(test.was, test.volumes...))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("from %d to %d with %v: %v, want %s", test.was, test.now, test.volumes, err, cmp.Or(test.want, "no error"))
		}
	}
}
