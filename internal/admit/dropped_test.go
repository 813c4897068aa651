package admit

import (
	"reflect"
	"testing"
)

func TestDropped(t *testing.T) {
	const file = "limits:\n  - {name: a, keys: \"a:{x}\", limit: 5, per: 1h}\n  - {name: b, keys: \"b:{x}\", limit: 5, per: 1h}\n  - {name: unused, keys: \"c:{x}\", limit: 5, per: 1h}\n"
	const onlyA = "limits:\n  - {name: a, keys: \"a:{x}\", limit: 7, per: 1m}\n"
	r := newRig(t, file)
	var d Decision
	for _, key := range []string{"a:1", "b:1", "b:2", "b:2"} {
		if err := r.Take([]Request{{Key: key, N: 1}}, &d); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		file string
		want []Dropped
	}{{file, nil}, {onlyA, []Dropped{{"b", 2}}}, {onlyA, nil}, {"limits: []\n", []Dropped{{"a", 1}}}} {
		if err := r.Replace(mustParse(t, step.file)); err != nil {
			t.Fatal(err)
		}
		if got := r.Dropped(); !reflect.DeepEqual(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
