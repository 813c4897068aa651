package policy

import (
	"strings"
	"testing"
)

func TestOutcome(t *testing.T) {
	for text, want := range map[string]string{ // what counts of 200, 302, 401, 404, 500
		"status >= 400": "401 404 500", "status<400": "200 302", "status == 401": "401", "status != 404": "200 302 401 500",
		"status > 404": "500", "status <= 302 and status != 200": "302", "status >= 400 and status < 500 and status != 404": "401",
	} {
		set, err := Parse("p.yaml", []byte(good+"    count_if: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for name, status := range map[string]uint64{"200": 200, "302": 302, "401": 401, "404": 404, "500": 500} {
			if holds := set.At(0).CountIf.Holds(status); holds != strings.Contains(want, name) {
				got = append(got, name)
			}
		}
		if got != nil || !set.HasOutcomes() {
			t.Errorf("%s: wrong for %v", text, got)
		}
		if spaced := set.At(0).CountIf.String(); strings.ReplaceAll(spaced, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Errorf("%s reads %s", text, spaced)
		}
	}
	for _, bad := range []string{"400", "status", "status >= 4xx", "status >= 40", "status >= 600", "status => 400", "status = 400", "code >= 400", "status >= 400 or status == 200", "\"\"", "[1]", "status > 100 and status > 101 and status > 102 and status > 103 and status > 104"} {
		_, err := Parse("p.yaml", []byte(good+"    count_if: "+bad+"\n"))
		if err == nil || !strings.Contains(err.Error(), "p.yaml:6: count_if: ") || !strings.Contains(err.Error(), "`count_if: status >= 400`") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := Parse("p.yaml", []byte(good+"    count_if: status >= 400\n    deny_for: 1m\n")); err == nil || !strings.Contains(err.Error(), "p.yaml:7: deny_for: ") {
		t.Errorf("a ban by requests whose answer is not known: %v", err)
	}
}
