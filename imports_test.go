package weir

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-counter/weir"

// Third-party modules that the library may import, each with a reason in
// docs/decisions.
var libraryModules = []string{"github.com/cespare/xxhash/v2"}

// A layer is a group of packages. Each may import the others of its group, and
// the groups that the layer names; all of those stand above it in the table.
type layer struct {
	name     string
	packages []string // folders; "x/..." is x and all below it
	imports  string   // names of layers
	modules  string   // parts of the paths of other modules
}

// layers is the architecture (docs/ARCHITECTURE.md), from the bottom up.
var layers = []layer{
	{"base", []string{"internal/units", "internal/wire", "internal/concurrency", "internal/files", "internal/filewatch", "internal/ratelimitfields", "internal/testsupport"}, "", ""},
	{"window", []string{"window", "limit", "internal/distinct"}, "base", ""},
	{"api", []string{"api"}, "base", ""},
	{"engine", []string{"internal/engine/..."}, "base window api", "cespare/xxhash"},
	{"library", []string{"."}, "base window api engine", ""},
	{"settings", []string{"internal/settings", "internal/pattern/..."}, "base api engine", "go.yaml.in/yaml"},
	{"policy", []string{"policy", "internal/admit"}, "base window api engine settings", "go.yaml.in/yaml"},
	{"auth", []string{"internal/auth/..."}, "base", "go.yaml.in/yaml"},
	{"journal", []string{"internal/journal/..."}, "base window engine api", "nats-io"},
	{"cluster", []string{"internal/cluster/transport/...", "internal/cluster/kv", "internal/cluster/grant", "internal/cluster/membership"}, "base window engine api journal auth", "nats-io minio/highwayhash cespare/xxhash"},
	{"tracing", []string{"internal/tracing"}, "", "go.opentelemetry.io"},
	{"durable", []string{"internal/durable", "internal/backup"}, "base engine api policy journal cluster tracing", "nats-io"},
	{"distributed", []string{"internal/cluster/limits", "internal/cluster/query"}, "base window engine api settings policy journal cluster tracing durable", "nats-io"},
	{"region", []string{"internal/region"}, "base window engine api settings journal cluster durable", "nats-io"},
	{"calendar", []string{"internal/history/calendar"}, "", ""},
	{"history", []string{"internal/history", "internal/history/store/..."}, "base window engine api journal", "modernc.org/sqlite jackc/pgx go-sql-driver/mysql pressly/goose"},
	{"client", []string{"client", "clients"}, "base api", "klauspost/compress"},
	{"replay", []string{"internal/replay/..."}, "base window engine settings api policy client", "klauspost/compress"},
	{"middleware", []string{"middleware/..."}, "base window engine library api policy client", ""},
	{"web", []string{"web"}, "", ""},
	{"service", []string{"internal/service/..."}, "base window engine library settings api policy auth tracing calendar", "cespare/xxhash"},
	{"listener", []string{"internal/server/listener"}, "settings service", ""},
	{"metrics", []string{"internal/server/metrics"}, "window engine settings api policy service listener", "prometheus/client_golang"},
	{"http", []string{"internal/server/httpapi"}, "base auth window engine settings api policy tracing calendar web service listener metrics", "danielgtaylor/huma klauspost/compress"},
	{"resp", []string{"internal/server/resp"}, "base auth engine settings api policy service listener", ""},
	{"envoy", []string{"internal/server/envoy/..."}, "base window engine settings api policy tracing service listener", "envoyproxy/go-control-plane google.golang.org/ go.yaml.in/yaml"},
	{"statsd", []string{"internal/server/statsd"}, "base engine settings api service listener", ""},
	{"topics", []string{"internal/topics"}, "base engine settings api journal cluster durable replay service", "nats-io twmb/franz-go google.golang.org/protobuf"},
	{"alerts", []string{"internal/alerts"}, "base window engine settings api policy journal cluster durable service topics", "nats-io go.yaml.in/yaml"},
	{"archive", []string{"internal/archive"}, "base engine settings api journal cluster durable", "minio/minio-go filippo.io/age"},
	{"node", []string{"node/..."}, "alerts topics archive base engine library settings api policy auth journal cluster tracing durable distributed region history service http resp envoy statsd", ""},
	{"command", []string{"cmd/weir", "internal/cli"}, "base window engine library settings api policy auth durable archive region history client replay web service envoy node", "spf13/cobra spf13/pflag golang.org/x/term go.yaml.in/yaml"},
	{"deploy", []string{"deploy"}, "", ""},
}

func (l *layer) has(folder string) bool {
	return slices.ContainsFunc(l.packages, func(p string) bool {
		if above, all := strings.CutSuffix(p, "/..."); all {
			return folder == above || strings.HasPrefix(folder, above+"/")
		}
		return folder == p
	})
}

func layerOf(folder string) *layer {
	for i := range layers {
		if layers[i].has(folder) {
			return &layers[i]
		}
	}
	return nil
}

// Each package is in a layer, and imports only its own layer and those that the
// layer names.
func TestImportRules(t *testing.T) {
	out, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		folder := folderOf(path)
		l := layerOf(folder)
		if l == nil {
			t.Errorf("%s is in no layer: add it to one of imports_test.go", folder)
			continue
		}
		for _, path := range imports(t, folder) {
			if !l.mayImport(path) {
				t.Errorf("%s imports %s: the layer %s may import its own packages, the layers %q and the modules %q", folder, path, l.name, l.imports, l.modules)
			}
		}
	}
}

func (l *layer) mayImport(path string) bool {
	switch {
	case path == module || strings.HasPrefix(path, module+"/"):
		other := layerOf(folderOf(path))
		return other == l || other != nil && slices.Contains(strings.Fields(l.imports), other.name)
	case !strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
		return true // the standard library
	}
	return slices.ContainsFunc(strings.Fields(l.modules), func(part string) bool { return strings.Contains(path, part) })
}

// A layer imports only layers above it in the table, listeners do not import each
// other, and only what keeps or moves the journal knows NATS.
func TestLayers(t *testing.T) {
	listeners := []string{"http", "resp", "envoy", "statsd"}
	knowNATS := []string{"journal", "cluster", "durable", "distributed", "region", "topics", "alerts"}
	seen := map[string]bool{}
	for _, l := range layers {
		for name := range strings.FieldsSeq(l.imports) {
			if !seen[name] {
				t.Errorf("layer %s imports %s, which does not stand above it", l.name, name)
			}
			if slices.Contains(listeners, name) && l.name != "node" && (l.name != "command" || name != "envoy") {
				t.Errorf("layer %s imports the listener %s: only a node opens listeners", l.name, name)
			}
		}
		if strings.Contains(l.modules, "nats-io") && !slices.Contains(knowNATS, l.name) {
			t.Errorf("layer %s may import NATS", l.name)
		}
		seen[l.name] = true
	}
}

// processWide are calls that change something of the whole process.
var processWide = []string{
	"debug.SetGCPercent", "debug.SetMaxStack", "debug.SetMaxThreads", "debug.SetMemoryLimit", "debug.FreeOSMemory",
	"flag.Parse", "http.Handle", "http.HandleFunc", "log.SetFlags", "log.SetOutput", "os.Chdir", "os.Setenv", "os.Unsetenv", "otel.SetTracerProvider",
	"prometheus.MustRegister", "prometheus.Register", "runtime.SetBlockProfileRate", "runtime.SetMutexProfileFraction",
	"signal.Ignore", "signal.Notify", "signal.NotifyContext", "signal.Reset", "slog.SetDefault", "slog.SetLogLoggerLevel",
	"syscall.Setrlimit", "syscall.Umask", "mysql.SetLogger", "grpclog.SetLoggerV2",
}

// A node is also a library: the garbage collector, signals, the default logger and whatever else belongs to the process
// are changed by a program alone.
func TestProcessBelongsToItsProgram(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{if ne .Name "main"}}{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.FromSlash(name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && slices.Contains(processWide, pkg.Name+"."+s.Sel.Name) {
					t.Errorf("%s: %s.%s changes the whole process, which belongs to its program", files.Position(n.Pos()), pkg.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// folderOf returns the folder of a package of this module.
func folderOf(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func imports(t *testing.T, folder string) []string {
	t.Helper()
	p, err := build.ImportDir(folder, 0)
	if err != nil {
		if none := (*build.NoGoError)(nil); errors.As(err, &none) {
			return nil
		}
		t.Fatal(err)
	}
	return p.Imports
}

// What a user compiles next to the standard library: packages of this module, and
// libraryModules, no more; for policies their file format, for a server its client.
func TestDependencies(t *testing.T) {
	for folder, more := range map[string][]string{
		".": nil, "./window": nil, "./limit": nil, "./middleware": nil,
		"./middleware/policies": {"go.yaml.in/yaml/v4"},
		"./middleware/remote":   {"github.com/klauspost/compress"},
	} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", folder).Output()
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			if inner, own := strings.CutPrefix(path, module+"/"); own {
				if strings.HasPrefix(inner, "internal/server") || strings.HasPrefix(inner, "internal/journal") {
					t.Errorf("%s compiles %s", folder, path)
				}
				continue
			}
			if path == module {
				continue
			}
			if !slices.ContainsFunc(append(more, libraryModules...), func(allowed string) bool {
				return path == allowed || strings.HasPrefix(path, allowed+"/")
			}) {
				t.Errorf("%s compiles %s", folder, path)
			}
		}
	}
}
