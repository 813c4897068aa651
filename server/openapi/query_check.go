package openapi

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/problem"
)

// mayBeEmpty are the parameters that mean something when they are empty: every
// key begins with an empty prefix.
var mayBeEmpty = []string{"prefix", "after"}

// checkParams refuses what huma ignores: a second value of a parameter that has
// one, and a value that is empty. An unset variable of a script must not pass
// for a default.
func checkParams(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		problem.New(api.CodeInvalidParameter, "", "the query can't be decoded: "+err.Error()).Write(w)
		return
	}
	for _, p := range ctx.Operation().Parameters {
		values := query[p.Name]
		var bad *problem.Problem
		switch {
		case p.In != "query":
		case p.Schema.Type != huma.TypeArray && len(values) > 1:
			bad = problem.New(api.CodeInvalidParameter, p.Name, fmt.Sprintf("%s is given %d times: give it once", p.Name, len(values)))
		case !slices.Contains(values, "") || slices.Contains(mayBeEmpty, p.Name):
		case p.Name == "key":
			bad = emptyKey()
		default:
			bad = problem.New(api.CodeInvalidParameter, p.Name, p.Name+" is empty: give it a value or leave it out")
		}
		if bad != nil {
			bad.Write(w)
			return
		}
	}
	next(ctx)
}

func emptyKey() *problem.Problem {
	return problem.New(api.CodeInvalidKey, "key", fmt.Sprintf("key is empty: a key has 1 to %d bytes", weir.MaxKeyBytes))
}
