package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/auth"
)

// Role and keys come before anything else of a request: who may not make it learns nothing of what else is wrong with it. The
// table has every route, or the server would not start.
func TestNeedsComeFirst(t *testing.T) {
	identities := map[string]string{}
	for _, role := range auth.RoleNames() {
		identities["some"+role] = fmt.Sprintf(`permissions: [{role: %s, keys: ["in:"]}]`, role)
		var others []string
		for _, other := range auth.RoleNames() {
			if other != role {
				others = append(others, "{role: "+other+"}")
			}
		}
		identities["not"+role] = "permissions: [" + strings.Join(others, ", ") + "]"
	}
	identities["nothing"] = `permissions: [{role: ingest, keys: ["nothing:"]}]`
	a := newLockedAPI(t, identities, options{})
	for pattern, need := range a.server.needs {
		if len(need.Roles) == 0 {
			continue
		}
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodGet, pattern
		}
		malformed := strings.NewReplacer("{key}", "out:a", "{id}", "%FF~", "{name}", "%FF", "{node}", "%FF", "{region}", "%FF").Replace(path) +
			"?n=x&window=-1&unknown=%FF&for=x&until=x&limit=-&step=0"
		for _, key := range need.keys {
			if !strings.Contains(path, "{"+key+"}") {
				malformed += "&" + key + "=out%3Aa"
			}
		}
		lacking := []string{"not" + need.Roles[0].String()}
		if len(need.Roles) > 1 {
			lacking = []string{"nothing"}
		}
		if need.All || need.keys != nil {
			lacking = append(lacking, "some"+need.Roles[0].String())
		}
		for _, who := range lacking {
			a.wantProblem(a.as(who, method, malformed, "{"), "forbidden", toProxy(path, http.StatusForbidden))
		}
	}
}
