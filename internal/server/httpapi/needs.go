package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
)

// need is what a route needs of its caller. The guard checks it before anything else of a request is parsed, so that a
// request that its caller may not make is refused for that reason, however it is written. Keys in bodies, and the template of
// forward-auth, are checked once they are read. The zero need is for every caller with an identity.
type need struct {
	access.Need
	keys []string     // names of parameters, in the path or the query, with the keys that a request is about
	pool *access.Pool // in which a request has a place from beginning to end; nil: none, or the handler enters one itself

	// open is for callers without an identity too: the probe of an orchestrator has no token, and the dashboard has not asked
	// for one yet.
	open bool
	// hot is for callers whose identity is not looked for on a server that is not locked.
	hot bool
}

var (
	anyRole    = need{}
	decides    = needOf(auth.Decide)
	decidesKey = needOf(auth.Decide, "key")
	reads      = needOf(auth.Read)
	readsKey   = needOf(auth.Read, "key")
	readsAll   = need{Need: access.Need{Roles: []auth.Role{auth.Read}, All: true}}
)

func needOf(role auth.Role, keys ...string) need {
	return need{Need: access.Need{Roles: []auth.Role{role}}, keys: keys}
}

func administers(action string, keys ...string) need {
	n := needOf(auth.Admin, keys...)
	n.Action = action
	return n
}

func administersAll(action string) need {
	n := administers(action)
	n.All = true
	return n
}

// isHot is a need of the hot paths.
func (n need) isHot() need {
	n.hot = true
	return n
}

// audited is a need whose action is noted in the audit log.
func (n need) audited(action string) need {
	n.Action = action
	return n
}

// keysNamed lists the keys that a request names in its path and query, except those that can't be decoded.
func (n need) keysNamed(r *http.Request) (keys []string) {
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
