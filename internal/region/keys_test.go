package region

import "testing"

func TestKeys(t *testing.T) {
	t.Parallel()
	some := Keys{"api:", "user:4"}
	for _, c := range []struct {
		of              Keys
		key             string
		tells, tellsAll bool
	}{
		{nil, "x", true, true}, {nil, "*", true, true}, {nil, "", true, true},
		{some, "api:x", true, true}, {some, "user:42", true, true}, {some, "user:5", false, false}, {some, "ap", false, false},
		{some, "*", false, false}, {some, "", false, false}, {some, "limit:api:allowed", true, false},
		{some, "limit:~sampled:api:x", true, false}, {some, "limit:~sampled:user:5", false, false}, {some, "limit:~sampled:", true, false},
	} {
		if tells, all := c.of.Tells(c.key), c.of.TellsAll(c.key); tells != c.tells || all != c.tellsAll {
			t.Errorf("%v of %q: %v, %v", c.of, c.key, tells, all)
		}
	}
}
