package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// Limits that requests bring along fill a quarter of the memory and no more, also after a
// restart; those of the program have the rest, and forgetting gives the space back.
func TestInlineMemory(t *testing.T) {
	now := unix(1_700_000_000)
	cfg := Config{Partitions: 4, Gather: true, LimitMemory: 256 << 10, Now: func() time.Time { return now }}
	e := newTestEngine(t, cfg)
	year := Limit{N: 100, Per: 366 * 24 * time.Hour}
	limits := func(e *Engine) (inline, policy *KeyedLimit) {
		inline, err := e.Limit("long", year)
		if err == nil {
			err = inline.Inline()
		}
		if err != nil {
			t.Fatal(err)
		}
		if policy, err = e.Limit("policy", year); err != nil {
			t.Fatal(err)
		}
		return inline, policy
	}
	flood := func(l *KeyedLimit) (n int) {
		for ; ; n++ {
			if _, err := l.Take(fmt.Sprint(l.Name(), n), 1); err != nil {
				wantCode(t, err, api.CodeOverloaded)
				return n
			}
		}
	}
	inline, policy := limits(e)
	one := flood(inline)
	if s := e.Stats(); one == 0 || s.InlineBytes > s.InlineBudget+1<<10 || s.InlineBytes != s.LimitBytes || s.InlineBudget != 64<<10 {
		t.Errorf("%d inline: %+v", one, s)
	}
	other := flood(policy)
	if other < 5*one/2 {
		t.Errorf("%d of the program's beside %d inline", other, one)
	}
	if _, err := inline.Take("long0", 1); err != nil {
		t.Errorf("a key that is known: %v", err)
	}

	// A restart brings back what there was, as what it was.
	journal := make([][]replication.Change, cfg.Partitions)
	states := make([][]byte, cfg.Partitions)
	cutAll := func(e *Engine) {
		var c replication.Cut
		for i := range journal {
			e.Cut(i, &c, true)
			journal[i] = append(journal[i], changesOf(t, &c)...)
			states[i] = append([]byte(nil), c.State...)
		}
	}
	cutAll(e)
	loaded, followed := newTestEngine(t, cfg), newTestEngine(t, cfg)
	for i := range journal {
		if err := loaded.LoadState(i, states[i], 0); err != nil {
			t.Fatal(err)
		}
		if err := followed.ApplyChanges(i, journal[i]); err != nil {
			t.Fatal(err)
		}
	}
	want := e.Stats()
	for name, restarted := range map[string]*Engine{"state": loaded, "journal": followed} {
		if s := restarted.Stats(); s.InlineBytes != want.InlineBytes || s.LimitBytes != want.LimitBytes || s.LimitStates != one+other {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}

	// To forget is journaled too, in its order: what comes after it stays.
	if n, err := e.Limits().ForgetInline("other"); n != 0 || err != nil {
		t.Errorf("of a name that nobody uses: %d, %v", n, err)
	}
	if n, err := e.Limits().ForgetInline(""); n != one || err != nil {
		t.Errorf("forgot %d, want %d: %v", n, one, err)
	}
	if _, err := inline.Take("after", 1); err != nil {
		t.Fatal(err)
	}
	for i := range journal {
		journal[i] = nil
	}
	cutAll(e)
	for i := range journal {
		if err := followed.ApplyChanges(i, journal[i]); err != nil {
			t.Fatal(err)
		}
		if err := loaded.ApplyChanges(i, journal[i]); err != nil {
			t.Fatal(err)
		}
	}
	for name, each := range map[string]*Engine{"it": e, "who follows": followed, "who reads the journal": loaded} {
		if s := each.Stats(); s.LimitStates != other+1 || s.InlineBytes == 0 || s.InlineBytes > 1<<10 {
			t.Errorf("after forgetting, %s: %+v", name, s)
		}
		l, p := limits(each)
		if v, err := l.Peek("after", 0); err != nil || v.Remaining != 99 {
			t.Errorf("%s: what came after: %+v, %v", name, v, err)
		}
		if v, err := p.Peek("policy0", 0); err != nil || v.Remaining != 99 {
			t.Errorf("%s: a policy: %+v, %v", name, v, err)
		}
	}
	if n, err := e.Limits().ForgetInline("long"); n != 1 || err != nil || e.Stats().InlineBytes != 0 {
		t.Errorf("by name: %d, %v, %+v", n, err, e.Stats())
	}
	_, err := e.Limits().ForgetInline("no name")
	wantCode(t, err, api.CodeInvalidLimit)
}

// The memory of inline limits is what it should be when a name becomes a policy's, and back.
func TestInlineAdopted(t *testing.T) {
	e := newTestEngine(t, Config{})
	l := Limit{N: 50, Per: time.Hour}
	inline, err := e.Limit("name", l)
	if err == nil {
		err = inline.Inline()
	}
	if err != nil {
		t.Fatal(err)
	}
	l.N = 5
	policy, err := e.Limit("name", l)
	if err != nil {
		t.Fatal(err)
	}
	inline.Allow("a")
	if s := e.Stats(); s.InlineBytes != s.LimitBytes || s.InlineBytes == 0 {
		t.Errorf("%+v", s)
	}
	policy.Allow("a")
	if s := e.Stats(); s.InlineBytes != 0 {
		t.Errorf("a policy's: %+v", s)
	}
	inline.Allow("a")
	if s := e.Stats(); s.InlineBytes != s.LimitBytes {
		t.Errorf("inline again: %+v", s)
	}
}
