package admit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func put(t *testing.T, b StoredPolicies, name, text string, want PolicyCondition) (StoredPolicies, uint64) {
	t.Helper()
	p := StoredPolicy{Name: name, Text: text, By: "ann", At: time.Unix(1_700_000_000, 0).UTC()}
	next, err := b.Put(&p, want)
	if err != nil {
		t.Fatal(err)
	}
	return next, p.Version
}

func names(b StoredPolicies) (list []string) {
	for _, p := range b.Policies {
		list = append(list, fmt.Sprintf("%s/%d=%s", p.Name, p.Version, p.Text))
	}
	return list
}

// Versions go up for ever, and conditions hold or are reported.
func TestVersions(t *testing.T) {
	t.Parallel()
	var b StoredPolicies
	b, first := put(t, b, "login", "a", PolicyCondition{New: true})
	b, second := put(t, b, "login", "b", PolicyCondition{Version: first})
	if second <= first {
		t.Errorf("versions %d, then %d", first, second)
	}
	for _, want := range []PolicyCondition{{New: true}, {Version: first}, {Version: second + 1}} {
		if _, err := b.Put(&StoredPolicy{Name: "login"}, want); !errors.Is(err, ErrPolicyVersion) {
			t.Errorf("put with %+v: %v", want, err)
		}
		if _, _, err := b.Delete("login", want); !errors.Is(err, ErrPolicyVersion) {
			t.Errorf("delete with %+v: %v", want, err)
		}
	}
	if _, err := b.Put(&StoredPolicy{Name: "other"}, PolicyCondition{Version: second}); !errors.Is(err, ErrPolicyVersion) {
		t.Errorf("of one that is not there: %v", err)
	}
	b, gone, err := b.Delete("login", PolicyCondition{Version: second})
	if err != nil || gone.Version != second || len(b.Policies) != 0 {
		t.Fatalf("%+v, %v of %+v", gone, err, b)
	}
	if _, _, err := b.Delete("login", PolicyCondition{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("again: %v", err)
	}
	b, _ = put(t, b, "zone", "a", PolicyCondition{})
	for _, name := range []string{"login", "zzz"} { // a policy that sorts after it, or none
		for _, want := range []PolicyCondition{{New: true}, {Share: true}} {
			if left, _, err := b.Delete(name, want); !errors.Is(err, ErrUnknown) || len(left.Policies) != 1 {
				t.Errorf("delete of %s with %+v: %v, %v are left", name, want, err, names(left))
			}
		}
	}
	if _, again := put(t, b, "login", "c", PolicyCondition{New: true}); again <= second {
		t.Errorf("version %d of a policy that had %d before it was deleted", again, second)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	var b StoredPolicies
	b, _ = put(t, b, "z", "{limit: 1}", PolicyCondition{})
	b, _ = put(t, b, "a", "{limit: 2}", PolicyCondition{})
	data := b.Bytes()
	again, err := ReadStoredPolicies(data)
	if err != nil || again.Last != 2 || !slices.Equal(names(again), []string{"a/2={limit: 2}", "z/1={limit: 1}"}) || !again.Policies[0].At.Equal(b.Policies[0].At) {
		t.Fatalf("%+v, %v", again, err)
	}
	if none, err := ReadStoredPolicies(nil); err != nil || len(none.Policies) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	for at := range data {
		data[at] ^= 4
		if _, err := ReadStoredPolicies(data); err == nil {
			t.Errorf("a bit of byte %d is wrong, and nobody says so", at)
		}
		data[at] ^= 4
	}
	if _, err := ReadStoredPolicies(data[:len(data)-1]); err == nil {
		t.Error("cut, and nobody says so")
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	var b StoredPolicies
	text := strings.Repeat("x", MaxText)
	for i := range MaxBook/MaxText - 1 {
		b, _ = put(t, b, fmt.Sprint(i), text, PolicyCondition{})
	}
	if _, err := b.Put(&StoredPolicy{Name: "more", Text: text}, PolicyCondition{}); !errors.Is(err, ErrFull) {
		t.Errorf("one more than there is space for: %v", err)
	}
	many := StoredPolicies{Policies: make([]StoredPolicy, MaxStoredPolicies)}
	for i := range many.Policies {
		many.Policies[i].Name = fmt.Sprintf("%04d", i)
	}
	if _, err := many.Put(&StoredPolicy{Name: "more"}, PolicyCondition{}); !errors.Is(err, ErrFull) {
		t.Errorf("one more than there may be: %v", err)
	}
}

// A backup that is merged takes nothing away; one that replaces leaves its own policies.
func TestRestore(t *testing.T) {
	t.Parallel()
	var here, from StoredPolicies
	here, _ = put(t, here, "both", "here", PolicyCondition{})
	here, _ = put(t, here, "here", "here", PolicyCondition{})
	from, _ = put(t, from, "both", "backup", PolicyCondition{})
	for range 5 {
		from, _ = put(t, from, "backup", "backup", PolicyCondition{})
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
