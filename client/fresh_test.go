package client

import (
	"errors"
	"github.com/weir-counter/weir/api"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// Who set a time to wait does not wait for its multiple, and learns who is missing.
func TestNotFreshIsNotAskedAgain(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if got := r.URL.Query().Get("fresh"); got != "1s500ms" {
			t.Errorf("fresh=%s", got)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":503,"code":"not_fresh","detail":"newer hits of n3 may be missing","missing":["n3"]}`))
	}))
	defer s.Close()
	c, err := New(s.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Top(t.Context(), TopQuery{Fresh: 1500 * time.Millisecond})
	var refused *Error
	if !errors.As(err, &refused) || !refused.NotFresh() || !slices.Equal(refused.Missing, []string{"n3"}) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestBoundsSayWhatIsKnown(t *testing.T) {
	for _, s := range []struct {
		json, count, rate string
	}{
		{`{"lower":3,"estimate":3,"upper":3,"exact":true}`, "3", "3.000"},
		{`{"lower":3,"estimate":4,"upper":6,"exact":false}`, "4 (3 to 6)", "4.000 (3.000 to 6.000)"},
		{`{"lower":1,"estimate":1,"upper":null,"exact":false}`, "1 or more", "1.000 or more"},
		{`{"lower":1,"estimate":2,"upper":null,"exact":false}`, "2 (1 or more)", "2.000 (1.000 or more)"},
	} {
		var b api.Bounds
		var p api.PerSecond
		if err := errors.Join(decode([]byte(s.json), &b), decode([]byte(s.json), &p)); err != nil {
			t.Fatal(err)
		}
		if b.String() != s.count || p.String() != s.rate {
			t.Errorf("%s: %s, %s", s.json, b, p)
		}
	}
}
