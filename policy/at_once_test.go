package policy

import (
	"strings"
	"testing"
	"time"
)

func TestAtOnce(t *testing.T) {
	t.Parallel()
	set, err := Parse("p.yaml", []byte(`limits:
- {name: rate, keys: "job:*", limit: 5, per: 1m}
- {name: jobs, keys: "job:{customer}:*", by: "job:{customer}", max: 20, ttl: 10s}
- {name: all, keys: "job:*", max: 100}
`))
	if err != nil || len(set.Policies()) != 1 || len(set.Concurrencies()) != 2 {
		t.Fatalf("%v", err)
	}
	got, err := set.AtOnce("job:42:x", "")
	if err != nil || len(got) != 2 || got[0] != (AtOnce{"jobs", "job:42", 20, 10 * time.Second}) || got[1] != (AtOnce{"all", "job:42:x", 100, 30 * time.Second}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := set.AtOnce("job:42:x", "all"); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := set.AtOnce("other", ""); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for key, name := range map[string]string{"": "", "other": "jobs", "job:42:x": "rate"} {
		if _, err := set.AtOnce(key, name); err == nil {
			t.Errorf("%s of %s", key, name)
		}
	}
}

func TestFaultsOfAtOnce(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"max: 0":                 "max: \"0\" is not a whole number from 1 to 10000: write for example `max: 20`",
		"max: 5, limit: 5":       "limit: unknown field; there are name, keys, by, max, ttl",
		"max: 5, where: strict":  "where: unknown field",
		"max: 5, ttl: 1h1m":      "ttl: 1h1m: must be 1s to 1h",
		"max: 5, ttl: soon":      "ttl: \"soon\"",
		"max: 5, by: \"{user}\"": "by: \"{user}\"",
		"max: ":                  "max: it is empty",
		"max: 5, keys: \"b\"":    "keys: it stands twice",
	} {
		_, err := Parse("p.yaml", []byte("limits:\n- {name: a, keys: \"k*\", "+fields+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "p.yaml:2: "+want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
	_, err := Parse("p.yaml", []byte("limits:\n- {max: 3}\n- {name: a, keys: k, max: 1}\n- {name: a, keys: k, limit: 1, per: 1m}\n"))
	if err == nil || !strings.Contains(err.Error(), "p.yaml:2: keys: it is missing: a limit of how many at once has name, keys and max") || !strings.Contains(err.Error(), "p.yaml:4: name: \"a\" stands twice") {
		t.Error(err)
	}
}
