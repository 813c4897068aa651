package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
)

// Every code of package api ends a request with a status, or is that of a line.
func TestCodes(t *testing.T) {
	all := codesOf(t, "../../../api/codes.go")
	lines := []api.Code{api.CodeInvalidLine, api.CodeLineTooLong}
	for name, code := range all {
		_, known := StatusOf[api.Code(code)]
		for _, line := range lines {
			known = known || string(line) == code
		}
		if !known {
			t.Errorf("api.%s has no status", name)
		}
	}
}

// codesOf reads the constants Code... of a file.
func codesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes[spec.Names[0].Name] = text
		return false
	})
	if len(codes) < 10 {
		t.Fatalf("%s: %d codes", path, len(codes))
	}
	return codes
}

// Every code that ends a request has a status.
func TestEveryCodeHasAStatus(t *testing.T) {
	lines := map[api.Code]bool{api.CodeInvalidLine: true, api.CodeLineTooLong: true}
	for code, status := range StatusOf {
		if status < 400 || http.StatusText(status) == "" || lines[code] {
			t.Errorf("%s: status %d", code, status)
		}
	}
	if p := NewProblem("made_up", "", "x"); p.Status != 500 {
		t.Errorf("an unknown code gives %d, want 500", p.Status)
	}
}
