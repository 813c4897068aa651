package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/query"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/service"
)

// Two servers hold half of the partitions each, and both answer for all keys.
func TestRoutedOverHTTP(t *testing.T) {
	t.Parallel()
	broker, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	if !broker.ReadyForConnections(time.Minute) {
		t.Fatal("the broker does not start")
	}
	at, silent := time.Unix(1_769_860_800, 0), time.Unix(1_769_860_000, 0)
	var urls []string
	var engines []*engine.Engine
	for i := range 2 {
		e, err := engine.New(engine.Config{Partitions: 4, Gather: true, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		e.Release(1 - i)
		e.Release(3 - i)
		conn, err := nats.Connect("", nats.InProcessServer(broker))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		r, err := query.Open(query.Config{
			Engine: e, Conn: conn, Self: fmt.Sprint("n", i),
			Holders: func(partition int) []string { return []string{fmt.Sprint("n", partition%2)} },
			Freshness: func() api.Freshness {
				return api.Freshness{AsOf: api.Time{Time: silent}, Late: []api.Late{{Node: fmt.Sprint("late", i), Since: api.Time{Time: silent}}}}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		answering, err := service.New(service.Backend{
			Engine: e, Answers: r, Figures: []func() any{func() any { return r.Stats() }},
		}, service.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := httpapi.New(answering, httpapi.Config{})
		if err != nil {
			t.Fatal(err)
		}
		hs := httptest.NewServer(s.Handler())
		t.Cleanup(hs.Close)
		engines, urls = append(engines, e), append(urls, hs.URL)
	}
	ask := func(method, url string, into any) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if into != nil {
			if err := json.NewDecoder(r.Body).Decode(into); err != nil {
				t.Fatalf("%s %s: %v", method, url, err)
			}
		}
		return r.StatusCode
	}
	var keys []string
	for i := range 20 {
		key := fmt.Sprint("k", i)
		partition := engines[0].Keyspace().PartitionOf(key)
		engines[partition%2].Apply(partition, []replication.Delta{{Key: key, At: at.Unix(), N: uint64(i + 1)}}, nil)
		keys = append(keys, "key="+key)
	}
	for i, url := range urls {
		var counts struct {
			Counts []struct {
				Estimate int
				AsOf     int64 `json:"as_of"`
				Late     []struct{ Node string }
			}
		}
		ask(http.MethodGet, url+"/v1/count?key=*&"+strings.Join(keys, "&"), &counts)
		if len(counts.Counts) != 21 || counts.Counts[0].Estimate != 210 || counts.Counts[20].Estimate != 20 ||
			counts.Counts[0].AsOf != silent.Unix() || len(counts.Counts[0].Late) != 2 {
			t.Errorf("node %d: %+v", i, counts)
		}
		var top struct{ Keys []struct{ Key string } }
		if ask(http.MethodGet, url+"/v1/top?n=2", &top); len(top.Keys) != 2 || top.Keys[0].Key != "k19" || top.Keys[1].Key != "k18" {
			t.Errorf("node %d: %+v", i, top)
		}
		var page struct {
			Keys []string
			Next string
		}
		if ask(http.MethodGet, url+"/v1/keys?limit=3&after=k11", &page); fmt.Sprint(page) != "{[k12 k13 k14] k14}" {
			t.Errorf("node %d: %+v", i, page)
		}
	}
	for i, key := range []string{"k0", "k1", "k2", "k3"} {
		retries := 0 // after a 503, which may come although the key was deleted
		transporttest.Eventually(t, "key "+key+" is deleted", func() bool {
			switch status := ask(http.MethodDelete, urls[i%2]+"/v1/keys/"+key, nil); {
			case status == http.StatusServiceUnavailable:
				retries++
				return false
			case status != http.StatusNoContent && (status != http.StatusNotFound || retries == 0):
				t.Fatalf("key %s after %d retries: status %d", key, retries, status)
			}
			return true
		})
	}
}
