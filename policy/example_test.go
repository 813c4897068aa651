package policy_test

import (
	"fmt"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

func Example() {
	set, err := policy.Parse("limits.yaml", []byte(`
limits:
  - name: login
    keys: "login:{user}:*"
    by: "login:{user}"
    limit: 2
    per: 1h
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, _ := weir.New(weir.Config{})
	defer engine.Close()
	live, _ := policy.NewLive(engine, set)

	var d policy.Decision
	for _, key := range []string{"login:bob:10.0.0.1", "login:bob:10.0.0.2", "login:bob:10.0.0.3", "login:eve:10.0.0.3"} {
		if err := live.Take([]policy.Request{{Key: key, N: 1}}, &d); err != nil {
			fmt.Println(err)
		}
		fmt.Println(key, d.Allowed, d.Results[0].Remaining)
	}
	// Output:
	// login:bob:10.0.0.1 true 1
	// login:bob:10.0.0.2 true 0
	// login:bob:10.0.0.3 false 0
	// login:eve:10.0.0.3 true 1
}

// All that is wrong is told, each with its line and field.
func ExampleParse() {
	_, err := policy.Parse("limits.yaml", []byte(`limits:
  - name: login
    keys: "login:{user}"
    by: "login:{usr}"
    limit: 5
    per: 1 minute
    brust: 10
`))
	fmt.Println(err)
	// Output:
	// limits.yaml:4: by: "login:{usr}": {usr} is not a capture of keys, did you mean user?; keys has {user}
	// limits.yaml:6: per: "1 minute" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1h30m or a number of seconds, or day, week or month of the calendar
	// limits.yaml:7: brust: unknown field, did you mean burst?; there are name, keys, by, limit, per, tz, anchor, burst, algorithm, mode, where, regions, within, away, deny_for, warn, wait, cost, order, last, overrides
}
