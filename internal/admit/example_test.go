package admit_test

import (
	"fmt"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
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
	e, _ := engine.New(engine.Config{})
	defer e.Close()
	live, _ := admit.NewLive(e, set)

	var d admit.Decision
	for _, key := range []string{"login:bob:10.0.0.1", "login:bob:10.0.0.2", "login:bob:10.0.0.3", "login:eve:10.0.0.3"} {
		if err := live.Take([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
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
