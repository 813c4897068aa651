package shadow

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/replay"
)

// A key that was over is banned: of a log that asks each second, 2 of each 62 requests pass where deny_for is a minute.
func TestBansOfALog(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 10, 24, 9, 0, 0, 0, time.UTC)
	var log []ask
	want, from := 0, 0
	for s := range 600 {
		log = append(log, ask{at: at.Add(time.Duration(s) * time.Second).Unix(), n: 1, keys: []string{"ip:10.0.0.1", "url:/"}})
		switch s - from { // two pass, the third is denied and bans until a minute later
		case 0, 1:
		case 61:
			want, from = want+1, s+1
		default:
			want++
		}
	}
	r, err := runOn(t, clf(log), Options{
		Log: replay.Options{Keys: []string{"ip:{host}"}}, Policies: policies(t, "limits:\n- {name: once, keys: \"ip:*\", limit: 2, per: 10s, deny_for: 1m}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Limits[0]; l.Denied != uint64(want) || l.Requests != 600 {
		t.Errorf("%d of %d denied, want %d", l.Denied, l.Requests, want)
	}
}
