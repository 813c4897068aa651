package server

import (
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// mayBeEmpty are the parameters that mean something when they are empty: every
// key begins with an empty prefix.
var mayBeEmpty = []string{"prefix", "after"}

// checkParams refuses what huma ignores: a second value of a parameter that has
// one, and a value that is empty. An unset variable of a script must not pass
// for a default.
func checkParams(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	query := r.URL.Query()
	for _, p := range ctx.Operation().Parameters {
		values := query[p.Name]
		var problem *problem
		switch {
		case p.In != "query":
		case p.Schema.Type != huma.TypeArray && len(values) > 1:
			problem = newProblem(api.CodeInvalidParameter, p.Name, fmt.Sprintf("%s is given %d times: give it once", p.Name, len(values)))
		case !slices.Contains(values, "") || slices.Contains(mayBeEmpty, p.Name):
		case p.Name == "key":
			problem = emptyKey()
		default:
			problem = newProblem(api.CodeInvalidParameter, p.Name, p.Name+" is empty: give it a value or leave it out")
		}
		if problem != nil {
			problem.write(w)
			return
		}
	}
	next(ctx)
}

func emptyKey() *problem {
	return newProblem(api.CodeInvalidKey, "key", fmt.Sprintf("key is empty: a key has 1 to %d bytes", weir.MaxKeyBytes))
}
