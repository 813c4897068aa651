package policy_test

import (
	"fmt"

	"github.com/weir-counter/weir/policy"
)

// All that is wrong is listed, each with its line and field.
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
	// limits.yaml:6: per: "1 minute" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds, or day, week or month of the calendar
	// limits.yaml:7: brust: unknown field, did you mean burst?; there are name, keys, by, limit, per, tz, anchor, burst, algorithm, mode, where, regions, within, away, deny_for, warn, wait, cost, count_if, order, last, except, overrides
}
