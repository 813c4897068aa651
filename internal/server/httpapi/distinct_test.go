package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
)

// A hit may carry an id: counts say how many different ones there were, exactly while they are few.
func TestDistinct(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	send := func(body string, status int, want string) {
		t.Helper()
		if r := a.do(http.MethodPost, "/v1/hits", "application/x-ndjson", body); r.status != status || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	ask := func(query, want string) {
		t.Helper()
		if r := a.get("/v1/count?" + query); !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s, want %s", query, r.status, r.body, want)
		}
	}
	now := start.Unix()
	send(fmt.Sprintf(`{"key":"a","distinct":"ann"}
{"key":"a","n":3,"distinct":"bob"}
{"key":"a","distinct":"\u0061nn"}
{"key":"a","distinct":null}
{"key":"a","distinct":"old","at":%d}
{"key":"b","distinct":"ann"}
{"key":"c"}`, now-400), 200, `"counted":9`)
	ask("key=a&distinct=true", `"distinct":{"estimate":2,"error":0,"lower":2,"upper":2}`)
	ask("key=a&distinct=true&window=1h", `"distinct":{"estimate":3,"error":0,"lower":3,"upper":3}`)
	ask("key=a&distinct=true&window=60d", `"distinct":{"estimate":3,"error":0,"lower":3,"upper":null}`)
	ask("key=a&key=b&distinct=true", `"distinct":{"estimate":1,"error":0,"lower":1,"upper":1}`)
	ask(fmt.Sprintf("key=a&distinct=true&at=%d&window=1h", now-5), `"distinct":{"estimate":1,"error":0,"lower":1,"upper":3}`)
	ask(fmt.Sprintf("key=a&distinct=true&at=%d", now-500), `"distinct":{"estimate":0,"error":0,"lower":0,"upper":3}`)
	ask(fmt.Sprintf("key=a&distinct=true&at=%d&window=30d", now-5), `"distinct":{"estimate":1,"error":0,"lower":1,"upper":null}`)
	for _, query := range []string{"key=a", "key=c&distinct=true", "key=nobody&distinct=true"} {
		if r := a.get("/v1/count?" + query); strings.Contains(r.body, "distinct") || r.status != 200 {
			t.Errorf("%s: %s", query, r.body)
		}
	}
	for _, id := range []string{`""`, `7`, `["x"]`, `"` + strings.Repeat("x", 513) + `"`} {
		send(`{"key":"a","distinct":`+id+`}`, 400, "distinct must be a string of 1 to 512 bytes")
	}
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, "{\"key\":\"many\",\"distinct\":\"visitor %d\"}\n", i)
	}
	send(many.String(), 200, `"counted":20000`)
	r := a.get("/v1/count?key=many&distinct=true")
	var estimate, lower, upper int
	_, after, _ := strings.Cut(r.body, `"distinct":`)
	if _, err := fmt.Sscanf(after, `{"estimate":%d,"error":0.023,"lower":%d,"upper":%d}`, &estimate, &lower, &upper); err != nil || estimate < 18_600 || estimate > 21_400 {
		t.Errorf("%s: %v", r.body, err)
	}
	if r := a.do(http.MethodDelete, "/v1/keys/a", "", ""); r.status != 204 {
		t.Error(r.body)
	}
	ask("key=a&distinct=true", `"estimate":0`)
}

// Sets take half of the memory at most, whether there are more of them or each grows. The keys that were hit least
// recently leave, and others keep theirs.
func TestDistinctFull(t *testing.T) {
	const memory = 256 << 10
	a := newTestAPI(t, engine.Config{Partitions: 4, Memory: memory}, options{})
	send := func(body string) {
		t.Helper()
		if r := a.do(http.MethodPost, "/v1/hits", "application/x-ndjson", body); r.status != 200 || !strings.Contains(r.body, `"rejected_lines":0`) {
			t.Fatal(body, r.body)
		}
		if got := a.engine.Stats().DistinctBytes; got > memory/2 {
			t.Fatalf("%d bytes of ids, half of the memory is %d", got, memory/2)
		}
	}
	at := start.Unix() - 10_000
	for i := range int64(2000) {
		send(fmt.Sprintf(`{"key":"used","distinct":"ann","at":%d}
{"key":"k%d","distinct":"ann","at":%d}`, at+i, i, at+i))
	}
	for i := range int64(3000) {
		send(fmt.Sprintf(`{"key":"used","distinct":"bob","at":%d}
{"key":"grows%d","distinct":"visitor %d","at":%d}`, at+2000+i, i%30, i, at+2000+i))
	}
	if r := a.get("/v1/count?key=used&distinct=true&window=1d"); !strings.Contains(r.body, `"lower":2,"upper":2`) {
		t.Error(r.body)
	}
	if a.engine.Keyspace().Has("k0") || !a.engine.Keyspace().Has("grows29") {
		t.Error("another key than the coldest left")
	}
}
