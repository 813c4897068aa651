package admit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

func TestNamedAndInline(t *testing.T) {
	r := newRig(t, good+"  - {name: all, keys: \"*\", limit: 9, per: 1m}\n")
	named := func(limit, key string) string { return r.ask(Request{Key: key, Limit: limit, N: 1}) }
	r.expect(named("login", "login:x"), "ok login[login:x]=ok/4")
	r.expect(named("login", "other"), `key "other" is not one of limit login: its keys are "login:*"`)
	r.expect(named("logn", "login:x"), `no limit "logn", did you mean login?; there are login, all`)
	inline := func(name, key string, l engine.Limit) string {
		return r.ask(Request{Key: key, Limit: name, Inline: &l, N: 1})
	}
	two := engine.Limit{N: 2, Per: 90 * time.Second}
	r.expect(inline("", "k", two), "ok inline/window/1m30s[k]=ok/1")
	r.expect(inline("", "k", engine.Limit{N: 3, Per: 90 * time.Second}), "ok inline/window/1m30s[k]=ok/1") // no fresh allowance
	r.expect(inline("", "k", two), "no inline/window/1m30s[k]=no/0 by inline/window/1m30s retry 1m30s")
	r.expect(inline("mine", "k", two), "ok mine[k]=ok/1")
	r.expect(inline("login", "k", two), "limit login is a policy: leave its numbers out, or give the request's own limit another name")
	r.expect(inline("", "k", engine.Limit{N: 2}), "per of 0s: must be 1ms to 366d")
	if got := inline("m m", "k", two); !strings.Contains(got, `"m m"`) {
		t.Error(got)
	}
	if n := r.hits("limit:inline/window/1m30s:allowed"); n != 2 {
		t.Errorf("%d hits of the inline limit, want 2", n)
	}
	if n := r.hits("limit:inline/window/1m30s:denied"); n != 1 {
		t.Errorf("%d denied hits of the inline limit, want 1", n)
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	r := newRig(t, "limits:\n  - {name: long, keys: \"l:{a}\", by: \"{a}{a}\", limit: 9, per: 1m}\n")
	many := make([]Request, engine.MaxChecks+1)
	for i := range many {
		many[i] = Request{Key: "k", Inline: &engine.Limit{N: 1, Per: time.Second}, N: 1}
	}
	for code, reqs := range map[api.Code][]Request{
		api.CodeInvalidKey:   {{Key: "l:" + strings.Repeat("x", 300)}},
		api.CodeInvalidCount: many,
		api.CodeInvalidLimit: {{Key: "k"}, {Key: "k", Limit: "none"}},
	} {
		var d Decision
		err := r.Take(reqs, &d)
		if e, ok := errors.AsType[*engine.Error](err); !ok || e.Code != code {
			t.Errorf("%v, want code %s", err, code)
		}
		if d.Allowed || len(d.Results) > 0 {
			t.Errorf("an error allows nothing: %+v", d)
		}
	}
	// A request that asks for more than there can be.
	r.expect(r.ask(Request{Key: "l:a", N: 10}), "no long[aa]=no/9 by long retry 0s")
	var d Decision
	if err := r.Peek([]Request{{Key: "l:a", N: 10}}, &d); err != nil || !d.Never {
		t.Errorf("it can never pass: %+v, %v", d, err)
	}
}

// Who writes limit=20 meant a limit of its own: the error says what that needs.
func TestNumberIsNoName(t *testing.T) {
	for _, file := range []string{good, "limits: []\n"} {
		var d Decision
		err := newRig(t, file).Take([]Request{{Key: "k", Limit: "20", N: 1}}, &d)
		if err == nil || !strings.Contains(err.Error(), "needs per too: limit=20&per=1m, or weir allow --n 20 --per 1m") {
			t.Error(err)
		}
	}
}

func TestInlineNamesAreBounded(t *testing.T) {
	r := newRig(t, good)
	for i := range MaxInlineNames {
		req := Request{Key: "k", Limit: fmt.Sprint("n", i), N: 1, Inline: &engine.Limit{N: 1, Per: time.Hour}}
		if i == 7 {
			req.N = 0 // nothing is used: the name makes space for the next
		}
		r.expect(r.ask(req), fmt.Sprintf("ok n%d[k]=ok/%d", i, 1-req.N))
	}
	r.expect(r.ask(Request{Key: "k", Limit: "instead", N: 1, Inline: &engine.Limit{N: 1, Per: time.Hour}}), "ok instead[k]=ok/0")
	if got := r.ask(Request{Key: "k", Limit: "more", Inline: &engine.Limit{N: 1, Per: time.Second}}); !strings.Contains(got, "1000 names") {
		t.Error(got)
	}
	for i := range maxInlineMade + 5 {
		r.expect(r.ask(Request{Key: "k", Limit: "n8", Inline: &engine.Limit{N: 2 + uint64(i), Per: time.Second}}), fmt.Sprintf("ok n8[k]=ok/%d", i+1))
	}
	if len(r.inline.made) > maxInlineMade {
		t.Errorf("%d limits are kept", len(r.inline.made))
	}
}
