package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Who is limited is asked of all nodes, and added up; who does not answer is missing.
func TestWhoOfAll(t *testing.T) {
	t.Parallel()
	most := "2"
	node := func(keys string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("n") != most {
				t.Errorf("%s", r.URL)
			}
			fmt.Fprintf(w, `{"at":1000,"window_s":60,"node":"x","forgotten":1,"keys":[%s]}`, keys)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	key := func(name string, denied, since, last int, retry float64) string {
		return fmt.Sprintf(`{"limit":"login","key":%q,"denied":%d,"since":%d,"last":%d,"retry_after_s":%v}`, name, denied, since, last, retry)
	}
	a, b := node(key("a", 5, 900, 990, 3)+","+key("b", 4, 950, 980, 9)), node(key("b", 3, 940, 999, 7)+","+key("c", 1, 991, 991, 1))
	c, err := New("127.0.0.1:1,"+a+","+b, Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	who, missing, err := c.WhoOfAll(t.Context(), WhoQuery{Most: 2})
	if err != nil || len(missing) != 1 || who.Node != "" || who.Forgotten != 2 || who.WindowSeconds != 60 || len(who.Keys) != 2 {
		t.Fatalf("%+v, %v, %v", who, missing, err)
	}
	if k := who.Keys[0]; k.Key != "b" || k.Denied != 7 || k.Since.Unix() != 940 || k.Last.Unix() != 999 || k.RetryAfterSeconds != 7 {
		t.Errorf("%+v", k)
	}
	if who.Keys[1].Key != "a" {
		t.Errorf("%+v", who.Keys[1])
	}
	var many []string // as many as a server lists by default
	for i := range 20 {
		many = append(many, key(fmt.Sprint("many", i), 1, 900, 990, 3))
	}
	most = ""
	if c, err = New(node(strings.Join(many, ","))+","+a, Options{Retries: -1}); err != nil {
		t.Fatal(err)
	}
	if who, _, err := c.WhoOfAll(t.Context(), WhoQuery{}); err != nil || len(who.Keys) != 20 || who.Keys[0].Key != "a" {
		t.Errorf("%d keys, %v: want 20", len(who.Keys), err)
	}
	none, err := New("127.0.0.1:1", Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := none.WhoOfAll(t.Context(), WhoQuery{}); err == nil {
		t.Error("nobody answered")
	}
}
