package kept

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func put(t *testing.T, b Book, name, text string, want Condition) (Book, uint64) {
	t.Helper()
	p := Policy{Name: name, Text: text, By: "ann", At: time.Unix(1_700_000_000, 0).UTC()}
	next, err := b.Put(&p, want)
	if err != nil {
		t.Fatal(err)
	}
	return next, p.Version
}

func names(b Book) (list []string) {
	for _, p := range b.Policies {
		list = append(list, fmt.Sprintf("%s/%d=%s", p.Name, p.Version, p.Text))
	}
	return list
}

// Versions go up for ever, and conditions hold or are told.
func TestVersions(t *testing.T) {
	t.Parallel()
	var b Book
	b, first := put(t, b, "login", "a", Condition{New: true})
	b, second := put(t, b, "login", "b", Condition{Version: first})
	if second <= first {
		t.Errorf("versions %d, then %d", first, second)
	}
	for _, want := range []Condition{{New: true}, {Version: first}, {Version: second + 1}} {
		if _, err := b.Put(&Policy{Name: "login"}, want); !errors.Is(err, ErrVersion) {
			t.Errorf("put with %+v: %v", want, err)
		}
		if _, _, err := b.Delete("login", want); !errors.Is(err, ErrVersion) {
			t.Errorf("delete with %+v: %v", want, err)
		}
	}
	if _, err := b.Put(&Policy{Name: "other"}, Condition{Version: second}); !errors.Is(err, ErrVersion) {
		t.Errorf("of one that is not there: %v", err)
	}
	b, gone, err := b.Delete("login", Condition{Version: second})
	if err != nil || gone.Version != second || len(b.Policies) != 0 {
		t.Fatalf("%+v, %v of %+v", gone, err, b)
	}
	if _, _, err := b.Delete("login", Condition{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("again: %v", err)
	}
	if _, again := put(t, b, "login", "c", Condition{New: true}); again <= second {
		t.Errorf("version %d of a policy that had %d before it was deleted", again, second)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	var b Book
	b, _ = put(t, b, "z", "{limit: 1}", Condition{})
	b, _ = put(t, b, "a", "{limit: 2}", Condition{})
	data := b.Bytes()
	again, err := Read(data)
	if err != nil || again.Last != 2 || !slices.Equal(names(again), []string{"a/2={limit: 2}", "z/1={limit: 1}"}) || !again.Policies[0].At.Equal(b.Policies[0].At) {
		t.Fatalf("%+v, %v", again, err)
	}
	if none, err := Read(nil); err != nil || len(none.Policies) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	for at := range data {
		data[at] ^= 4
		if _, err := Read(data); err == nil {
			t.Errorf("a bit of byte %d is wrong, and nobody says so", at)
		}
		data[at] ^= 4
	}
	if _, err := Read(data[:len(data)-1]); err == nil {
		t.Error("cut, and nobody says so")
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	var b Book
	text := strings.Repeat("x", MaxText)
	for i := range MaxBook/MaxText - 1 {
		b, _ = put(t, b, fmt.Sprint(i), text, Condition{})
	}
	if _, err := b.Put(&Policy{Name: "more", Text: text}, Condition{}); !errors.Is(err, ErrFull) {
		t.Errorf("one more than there is room for: %v", err)
	}
	many := Book{Policies: make([]Policy, MaxPolicies)}
	for i := range many.Policies {
		many.Policies[i].Name = fmt.Sprintf("%04d", i)
	}
	if _, err := many.Put(&Policy{Name: "more"}, Condition{}); !errors.Is(err, ErrFull) {
		t.Errorf("one more than there may be: %v", err)
	}
}

// A backup that is merged takes nothing away; one that replaces leaves its own policies.
func TestRestore(t *testing.T) {
	t.Parallel()
	var here, from Book
	here, _ = put(t, here, "both", "here", Condition{})
	here, _ = put(t, here, "here", "here", Condition{})
	from, _ = put(t, from, "both", "backup", Condition{})
	for range 5 {
		from, _ = put(t, from, "backup", "backup", Condition{})
	}
	for replace, want := range map[bool][]string{
		false: {"backup/7=backup", "both/1=here", "here/2=here"},
		true:  {"backup/7=backup", "both/8=backup"},
	} {
		if got, err := here.Restore(from, replace); err != nil || !slices.Equal(names(got), want) {
			t.Errorf("replace %v: %q, %v; want %q", replace, names(got), err, want)
		}
	}
}
