package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
)

// This part says what each route needs of its caller. The guard checks it before anything else of a request is parsed, so
// that a request that its caller may not make is refused as that, however it is written.

// routeNeed is the need of a route, and which of its parameters name the keys that it is for.
type routeNeed struct {
	access.Need
	keys []string // names of parameters, in the path or the query
}

var (
	anyRole    = routeNeed{}
	ingests    = needOf(auth.Ingest)
	decides    = needOf(auth.Decide)
	decidesKey = needOf(auth.Decide, "key")
	reads      = needOf(auth.Read)
	readsKey   = needOf(auth.Read, "key")
	readsAll   = needAll(auth.Read)
)

func needOf(role auth.Role, keys ...string) routeNeed {
	return routeNeed{access.Need{Roles: []auth.Role{role}}, keys}
}

func needAll(role auth.Role) routeNeed {
	return routeNeed{access.Need{Roles: []auth.Role{role}, All: true}, nil}
}

func administers(action string, keys ...string) routeNeed {
	return routeNeed{access.Need{Roles: []auth.Role{auth.Admin}, Action: action}, keys}
}

func administersAll(action string) routeNeed {
	return routeNeed{access.Need{Roles: []auth.Role{auth.Admin}, All: true, Action: action}, nil}
}

// routeNeeds has every route but those that are open to all (openRoute). Keys in bodies, and the template of forward-auth, are checked once they are
// read.
var routeNeeds = map[string]routeNeed{
	"/": anyRole, "GET /docs": anyRole, "GET /docs/{$}": anyRole, "GET /docs/page.js": anyRole, "GET /docs/page.css": anyRole, "GET /openapi.json": anyRole,

	"POST /v1/hits":                       ingests,
	"POST /v1/allow":                      decides,
	"GET /v1/allow":                       decidesKey,
	ForwardAuthPath:                       decides,
	"POST /v1/reserve":                    decides,
	"POST /v1/settle":                     decides,
	"POST /v1/refund":                     {access.Need{Roles: []auth.Role{auth.Decide}, Action: "refund"}, nil},
	"POST /v1/permits":                    decidesKey,
	"POST /v1/permits/{id}/heartbeat":     decides,
	"DELETE /v1/permits/{id}":             decides,
	"GET /v1/count":                       readsKey,
	"GET /v1/rate":                        readsKey,
	"GET /v1/series":                      readsKey,
	"GET /v1/top":                         reads,
	"GET /v1/keys":                        reads,
	"GET /v1/limits":                      reads,
	"GET /v1/limits/who":                  reads,
	"GET /v1/limits/{name}/keys":          reads,
	"GET /v1/denials/{id}":                reads,
	"GET /v1/bans":                        reads,
	"GET /v1/views/overview":              reads,
	"GET /v1/views/key":                   readsKey,
	"GET /v1/views/limits":                reads,
	"GET /v1/views/log":                   reads,
	"GET /v1/views/what-if":               readsKey,
	"GET /v1/views/nodes":                 readsAll,
	"GET /v1/export":                      {access.Need{Roles: []auth.Role{auth.Read}, All: true, Action: "export"}, nil},
	"GET /v1/stats":                       readsAll,
	"GET /v1/cluster":                     readsAll,
	"GET /v1/regions":                     readsAll,
	"GET " + feedPath:                     readsAll,
	"GET /metrics":                        readsAll,
	"DELETE /v1/keys":                     administers("delete prefix", "prefix"),
	"DELETE /v1/keys/{key}":               administers("delete key", "key"),
	"DELETE /v1/limits/{name}/keys/{key}": {access.Need{Roles: []auth.Role{auth.Decide, auth.Admin}, Action: "reset limit"}, []string{"key"}},
	"POST /v1/grants":                     administers("grant", "key"),
	"POST /v1/bans":                       administers("ban", "key"),
	"DELETE /v1/bans":                     administers("unban", "key"),
	"GET /v1/policies":                    needOf(auth.Admin),
	"GET /v1/policies/{name}":             needOf(auth.Admin),
	"PUT /v1/policies/{name}":             administers("put policy"),
	"DELETE /v1/policies/{name}":          administers("delete policy"),
	"DELETE /v1/limits/inline":            administersAll("forget inline limits"),
	"DELETE /v1/cluster/nodes/{node}":     administersAll("remove node"),
	"DELETE /v1/regions/{region}":         administersAll("forget region"),
	"GET /v1/backup":                      administersAll("backup"),
	"POST /v1/restore":                    administersAll("restore"),
}

// keysNamed lists the keys that a request names in its path and query; what can't be decoded is none.
func (n routeNeed) keysNamed(r *http.Request) (keys []string) {
	for _, name := range n.keys {
		if key := r.PathValue(name); key != "" {
			keys = append(keys, key)
		}
		for rest := r.URL.RawQuery; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			given, value, _ := strings.Cut(pair, "=")
			if given != name || value == "" {
				continue
			}
			if key, err := url.QueryUnescape(value); err == nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
