package weir

import (
	"go/build"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-counter/weir"

// Third-party modules that the library may import, each with a reason in
// docs/decisions.
var libraryModules = []string{"github.com/cespare/xxhash/v2"}

// A room is a row of the table in docs/ARCHITECTURE.md.
type room struct {
	rooms   []string // folders of this module that it may import
	modules []string // parts of the paths of others
}

var (
	roomRow = regexp.MustCompile("(?m)^\\| `([^`]+?)/?` \\|[^|]*\\|([^|]*)\\|([^|]*)\\|$")
	quoted  = regexp.MustCompile("`([^`]+?)/?`")
)

// readRooms reads the table, by folder.
func readRooms(t *testing.T) map[string]room {
	t.Helper()
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| folder | its one job | may import | modules |")
	if !found {
		t.Fatal("docs/ARCHITECTURE.md has no table of rooms")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	names := func(cell string) (list []string) {
		for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
			list = append(list, match[1])
		}
		return list
	}
	rooms := map[string]room{}
	for _, row := range roomRow.FindAllStringSubmatch(table, -1) {
		rooms[row[1]] = room{names(row[2]), names(row[3])}
	}
	if lines := strings.Count(strings.TrimSpace(table), "\n"); lines != len(rooms) {
		t.Fatalf("docs/ARCHITECTURE.md: %d rows of rooms, of which %d could be read: write | `folder/` | job | `room` ... | `module` ... |", lines, len(rooms))
	}
	return rooms
}

// The code keeps to the table of rooms in docs/ARCHITECTURE.md: each package has a
// row, each row a package, and no package imports what its row does not name.
func TestImportRules(t *testing.T) {
	rooms := readRooms(t)
	out, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		folder := folderOf(path)
		allowed, ok := rooms[folder]
		if !ok {
			t.Errorf("%s has no row in the table of docs/ARCHITECTURE.md", folder)
			continue
		}
		delete(rooms, folder)
		for _, path := range imports(t, folder) {
			if !allowed.mayImport(folder, path) {
				t.Errorf("%s imports %s: its row in docs/ARCHITECTURE.md allows %v and %v", folder, path, allowed.rooms, allowed.modules)
			}
		}
	}
	for folder := range rooms {
		t.Errorf("docs/ARCHITECTURE.md has a row for %s, where no package is", folder)
	}
}

func (r room) mayImport(folder, path string) bool {
	switch {
	case path == module || strings.HasPrefix(path, module+"/"):
		inner := folderOf(path)
		return slices.Contains(r.rooms, inner) || strings.HasPrefix(inner, folder+"/")
	case !strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
		return true // the standard library
	}
	return slices.ContainsFunc(r.modules, func(part string) bool { return strings.Contains(path, part) })
}

// folderOf is the folder of a package of this module.
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
		t.Fatal(err)
	}
	return p.Imports
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

// NATS stays in the rooms that journal and join: all others would compile it too.
func TestOnlyTheJournalKnowsNATS(t *testing.T) {
	for folder, room := range readRooms(t) {
		inside := slices.ContainsFunc([]string{"journal", "cluster", "region", "node"}, func(top string) bool {
			return folder == top || strings.HasPrefix(folder, top+"/")
		})
		if slices.Contains(room.modules, "nats-io") && !inside {
			t.Errorf("docs/ARCHITECTURE.md lets %s import NATS", folder)
		}
	}
}

// A door imports no other door: whatever two of them need is the service's. Its own rooms are
// inside it, and the service knows none.
func TestDoorsStandAlone(t *testing.T) {
	doors := []string{"server", "resp", "rls", "statsd"}
	doorOf := func(folder string) string {
		top, _, _ := strings.Cut(folder, "/")
		if slices.Contains(doors, top) {
			return top
		}
		return ""
	}
	for folder, room := range readRooms(t) {
		for _, other := range room.rooms {
			of := doorOf(other)
			switch own := doorOf(folder); {
			case of == "" || of == own:
			case own != "":
				t.Errorf("docs/ARCHITECTURE.md lets %s import %s, another door", folder, other)
			case folder != "node":
				t.Errorf("docs/ARCHITECTURE.md lets %s import %s: the node alone opens doors", folder, other)
			}
		}
	}
}
