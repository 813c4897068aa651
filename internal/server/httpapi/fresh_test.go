package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

var freshQuestions = []string{"/v1/count?key=a&", "/v1/count?key=a&key=b&", "/v1/rate?key=a&", "/v1/series?key=a&step=1h&", "/v1/top?", "/v1/keys?"}

// A question that other nodes' hits must be in fails when its time is over, and says
// who is missing; those that do not ask for them are answered.
func TestNotFresh(t *testing.T) {
	a := newClusterAPI(t, stillJournal{})
	a.post("a 3")
	for _, path := range freshQuestions {
		r := a.get(path + "fresh=20ms")
		a.wantProblem(r, api.CodeNotFresh, http.StatusServiceUnavailable)
		var p struct{ Missing []string }
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || !slices.Equal(p.Missing, []string{"n2"}) || !strings.Contains(r.body, "newer hits of n2") {
			t.Errorf("GET %s: %s", path, r.body)
		}
		for _, wrong := range []string{"0", "-1s", "11s", "soon", ""} {
			a.wantProblem(a.get(path+"fresh="+wrong), api.CodeInvalidParameter, http.StatusBadRequest)
		}
	}
	for path, code := range map[string]api.Code{ // what is wrong is said at once
		"/v1/count?key=a&window=x&fresh=10s": api.CodeInvalidWindow, "/v1/count?key=a&at=x&fresh=10s": api.CodeInvalidTime,
		"/v1/series?key=a&from=x&fresh=10s": api.CodeInvalidTime, "/v1/top?window=x&fresh=10s": api.CodeInvalidWindow,
	} {
		a.wantProblem(a.get(path), code, http.StatusBadRequest)
	}
}

// Once all nodes are in, nobody is late, and the answer is complete until it was asked for.
func TestFreshAnswers(t *testing.T) {
	began := time.Now()
	answers := &elsewhere{}
	a := newTestAPI(t, engine.Config{Now: time.Now, Gather: true}, options{Backend: service.Backend{Journal: stillJournal{}, Cluster: fixedCluster{now: began, back: true}, Answers: answers}})
	answers.engine = a.engine
	a.post("a 3\nb")
	// A holder that is behind has what is left of fresh, or a second.
	for fresh, least := range map[string]time.Duration{"9s": 9 * time.Second, "10ms": time.Second} {
		asked := time.Now()
		if r := a.get("/v1/count?key=a&fresh=" + fresh); r.status != http.StatusOK || answers.until.Before(asked.Add(least)) || answers.until.After(time.Now().Add(least)) {
			t.Errorf("fresh=%s: %d, until %v after the question", fresh, r.status, answers.until.Sub(asked))
		}
	}
	for _, path := range freshQuestions {
		r := a.get(path + "fresh=2s")
		var got struct {
			AsOf   float64 `json:"as_of"`
			At     int64   `json:"at"`
			Late   []any
			Counts []struct{ At int64 }
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Late) > 0 || strings.Contains(r.body, `"exact":false`) || answers.upTo != 7 {
			t.Errorf("GET %s: %s (%v)", path, r.body, err)
		}
		if len(got.Counts) == 0 && got.AsOf < float64(began.UnixMilli())/1000 {
			t.Errorf("GET %s: as of %v, asked after %v", path, got.AsOf, began)
		}
		// The clock of n2 is two seconds ahead: its hits of this second are in the window.
		if strings.HasPrefix(path, "/v1/rate") && got.At < began.Unix()+2 {
			t.Errorf("GET %s: at %d, the other node's hits come at %d", path, got.At, began.Unix()+2)
		}
	}
	single := newTestAPI(t, engine.Config{}, options{})
	single.post("a 3")
	for _, path := range freshQuestions {
		if r := single.get(path + "fresh=1ms"); r.status != http.StatusOK {
			t.Errorf("alone: GET %s: %d %s", path, r.status, r.body)
		}
	}
}

// Questions that wait for a node which is away are few: the others are answered.
func TestFreshQuestionsAreBounded(t *testing.T) {
	a := newTestAPI(t, engine.Config{Now: time.Now, Gather: true}, options{Backend: service.Backend{Journal: stillJournal{}, Cluster: fixedCluster{now: time.Now(), back: true}}, Service: service.Config{MaxInFlight: 8}})
	a.server.service.Pools.Fresh.Enter(access.Caller{}, 2) // that wait already
	a.wantProblem(a.get("/v1/count?key=a&fresh=1s"), api.CodeOverloaded, http.StatusServiceUnavailable)
	if r := a.get("/v1/count?key=a"); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	a.server.service.Pools.Fresh.Leave(access.Caller{}, 1)
	if r := a.get("/v1/count?key=a&fresh=1s"); r.status != http.StatusOK || a.server.service.Pools.Fresh.Stats().InUse != 1 {
		t.Errorf("%d %s, %d wait", r.status, r.body, a.server.service.Pools.Fresh.Stats().InUse)
	}
}
