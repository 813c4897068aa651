package weir

import (
	"go/build"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-counter/weir"

// The import rules of docs/ARCHITECTURE.md. A folder that is not named here may
// import what it likes of the module, except commands.
var mayImport = map[string][]string{
	"window":       {},
	"limit":        {},
	".":            {"window", "limit"},
	"journal":      {".", "window"},
	"journal/join": {},

	"journal/join/ondisk": {},

	"journal/lease": {},
	"journal/share": {"."},
	"internal/sim":  {},

	"internal/recent": {},

	"server": {".", "window", "limit", "policy", "internal/units", "internal/ratelimitfields", "internal/nearest", "internal/recent"},
	"policy": {".", "limit", "internal/units", "internal/nearest"},
	"client": {"internal/units"},
	"replay": {".", "window", "internal/units", "client"},

	"replay/shadow": {".", "limit", "policy", "replay", "internal/units"},

	"journal/strict": {".", "journal", "journal/checks", "journal/lease", "journal/share", "journal/varint"},
	"journal/route":  {".", "limit", "journal/checks", "journal/varint", "internal/recent"},
	"journal/checks": {".", "journal/varint"},
	"journal/varint": {},

	"middleware":          {".", "limit", "internal/ratelimitfields"},
	"middleware/policies": {".", "middleware", "policy"},
	"middleware/remote":   {".", "limit", "client", "middleware"},
}

// Third-party modules that the library may import, each with a reason in
// docs/decisions.
var libraryModules = []string{"github.com/cespare/xxhash/v2"}

func TestImportRules(t *testing.T) {
	for folder, allowed := range mayImport {
		for _, path := range imports(t, folder) {
			inner, ok := strings.CutPrefix(path, module)
			if !ok {
				continue
			}
			inner = strings.TrimPrefix(inner, "/")
			if inner == "" {
				inner = "."
			}
			if !slices.Contains(allowed, inner) && !strings.HasPrefix(inner, folder+"/") {
				t.Errorf("%s imports %s: allowed are %v (docs/ARCHITECTURE.md)", folder, path, allowed)
			}
		}
	}
}

// What a user compiles beside the standard library: packages of this module, and
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
			if inner, own := strings.CutPrefix(path, module); own {
				if inner == "/server" || inner == "/journal" {
					t.Errorf("%s compiles %s", folder, path)
				}
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

func imports(t *testing.T, folder string) []string {
	t.Helper()
	p, err := build.ImportDir(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p.Imports
}

// Only the journal and commands know NATS.
func TestOnlyTheJournalKnowsNATS(t *testing.T) {
	for _, folder := range []string{".", "window", "server", "client", "replay"} {
		for _, path := range imports(t, folder) {
			if strings.HasPrefix(path, "github.com/nats-io/") {
				t.Errorf("%s imports %s", folder, path)
			}
		}
	}
}
