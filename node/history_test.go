package node_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// historical is a node alone with history, whose data are in dir.
func historical(t *testing.T, dir string, change func(*node.Config)) *node.Node {
	t.Helper()
	cfg := node.Config{Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
	cfg.HTTP.Addr = "127.0.0.1:0"
	cfg.Journal.Dir = dir
	cfg.Engine.Memory, cfg.Engine.LimitMemory = 16<<20, 1<<20
	cfg.Journal.FlushEvery = 5 * time.Millisecond
	cfg.History.On, cfg.History.Every = true, 100*time.Millisecond
	if change != nil {
		change(&cfg)
	}
	return nodetest.Open(t, cfg)
}

// aligned asks for a series, which must be all hits that were taken before: again for as long as history is late.
func aligned(t *testing.T, n *node.Node, query string) api.SeriesAnswer {
	t.Helper()
	var body []byte
	transporttest.Eventually(t, "history has all hits: "+query, func() bool {
		response, err := http.Get("http://" + n.Addr() + "/v1/series?fresh=10s&" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err = io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusServiceUnavailable {
			t.Fatal(query, response.Status, string(body), err)
		}
		return response.StatusCode == http.StatusOK
	})
	var answer api.SeriesAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// metricsOf are the figures in /metrics whose names begin so, with the labels that they have.
func metricsOf(t *testing.T, n *node.Node, prefix string) map[string]float64 {
	t.Helper()
	response, err := http.Get("http://" + n.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	figures := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		var name string
		var value float64
		if n, _ := fmt.Sscan(lines.Text(), &name, &value); n == 2 && strings.HasPrefix(name, prefix) {
			figures[name] = value
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return figures
}

func hitAt(t *testing.T, n *node.Node, key string, at time.Time, hits uint64) {
	t.Helper()
	if _, err := n.Engine().HitAt(at, key, hits); err != nil {
		t.Fatal(err)
	}
}

// The days of a month are exact, with late hits and over restarts, where windows know them within
// bounds only.
func TestHistory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := historical(t, dir, nil)
	now := time.Now().UTC()
	today := now.Truncate(24 * time.Hour)
	want := make([]uint64, 21)
	hit := func(age int, at time.Time, hits uint64) {
		hitAt(t, n, "url:/home", at, hits)
		want[20-age] += hits
	}
	for round := range 3 {
		for age := 20; age >= 1; age-- { // 600 different seconds of each day: a pyramid
			for i := range 600 {
				hit(age, today.AddDate(0, 0, -age).Add(time.Duration(i*144+round)*time.Second), uint64(i%7+age+round))
			}
		}
		hit(0, now.Add(-time.Second), 5)
		if round == 1 {
			nodetest.Close(t, n)
			n = historical(t, dir, nil)
		}
		got := aligned(t, n, fmt.Sprintf("key=url:/home&align=day&from=%d", today.AddDate(0, 0, -20).Unix()))
		if len(got.Points) != 21 || got.Source != "history" || got.Align != "day" {
			t.Fatalf("%d points, source %s", len(got.Points), got.Source)
		}
		for i, p := range got.Points {
			if !p.Exact || p.Estimate != want[i] || !p.Start.Equal(today.AddDate(0, 0, i-20)) {
				t.Errorf("round %d, day %d: %s, want %d; it begins at %s", round, i, p.Bounds, want[i], p.Start)
			}
		}
	}
	if all := aligned(t, n, fmt.Sprintf("key=*&align=day&from=%d", today.AddDate(0, 0, -20).Unix())); all.Points[3].Estimate != want[3] {
		t.Errorf("all keys: %s, want %d", all.Points[3].Bounds, want[3])
	}
	figures := metricsOf(t, n, "weir_history_")
	if lag := figures["weir_history_lag_seconds"]; lag < 0 || lag > 60 || figures["weir_history_writer"] != 1 || figures["weir_history_rows_total"] < 21 ||
		figures["weir_history_file_bytes"] < 4096 || figures["weir_history_gaps"] != 0 || figures["weir_history_failures_total"] != 0 {
		t.Error(figures)
	}
	if existed, err := n.Engine().Delete("url:/home"); err != nil || !existed {
		t.Fatal(existed, err)
	}
	for _, p := range aligned(t, n, "key=url:/home&align=day&from=-20d").Points {
		if !p.Exact || p.Estimate != 0 {
			t.Errorf("a deleted key has %s on %s", p.Bounds, p.Start)
		}
	}
}

// Counts of whole hours and days are exact, over each listener, where windows know them within bounds.
func TestCountFromHistory(t *testing.T) {
	t.Parallel()
	n := historical(t, filepath.Join(t.TempDir(), "data"), func(cfg *node.Config) { cfg.RESP.Addr = "127.0.0.1:0" })
	today := time.Now().UTC().Truncate(24 * time.Hour)
	rnd := rand.New(rand.NewPCG(1, 2))
	perHour := make([]uint64, 21*24)
	for range 20_000 {
		second := rnd.IntN(20 * 86400)
		hitAt(t, n, "k", today.AddDate(0, 0, -20).Add(time.Duration(second)*time.Second), 1)
		perHour[second/3600]++
	}
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "history has all hits", func() bool { // a question waits for it for some seconds alone
		all, err := c.Rate(t.Context(), client.CountQuery{Keys: []string{"k"}, Windows: []time.Duration{20 * 24 * time.Hour}, At: today.Add(-time.Second), Fresh: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Exact && all[0].Lower == 20_000
	})
	fromHistory := 0
	for range 50 {
		end := 1 + rnd.IntN(20*24)
		hours := 1 + rnd.IntN(end)
		at := today.AddDate(0, 0, -20).Add(time.Duration(end)*time.Hour - time.Second)
		q := client.CountQuery{Keys: []string{"k"}, Windows: []time.Duration{time.Duration(hours) * time.Hour}, At: at, Fresh: 10 * time.Second}
		want := uint64(0)
		for _, n := range perHour[end-hours : end] {
			want += n
		}
		rates, err := c.Rate(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got := rates[0]; !got.Exact || got.Lower != want || got.PerSecond.Lower != got.PerSecond.Estimate {
			t.Errorf("%d hours up to %s: %s of %q, want %d", hours, at, got.Bounds, got.Source, want)
		}
		if rates[0].Source != "history" { // the windows happen to know
			continue
		}
		if fromHistory++; fromHistory > 1 {
			continue
		}
		q.At = q.At.Add(time.Second)
		if counts, err := c.Count(t.Context(), q); err != nil || counts[0].Source != "" || counts[0].Exact {
			t.Error("hours and a second:", counts, err)
		}
		text := roundTrip(t, n, fmt.Sprintf("COUNT k %dh AT %d\r\n", hours, at.Unix()), 8)
		if want := fmt.Sprintf("*6\r\n:%d\r\n:%d\r\n:%d\r\n:1\r\n:", want, want, want); !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "$7\r\nhistory\r\n") {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if fromHistory < 25 {
		t.Errorf("%d of 50 are of history", fromHistory)
	}
}

// roundTrip sends a command over RESP, and returns so many lines of its answer.
func roundTrip(t *testing.T, n *node.Node, command string, lines int) (text string) {
	t.Helper()
	conn, err := net.Dial("tcp", n.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, command); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for range lines {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(text, err)
		}
		text += line
	}
	return text
}

// In zones that are half an hour or a quarter off, days are exact where slots are as wide.
func TestDaysOfHalfHourZones(t *testing.T) {
	t.Parallel()
	for name, slot := range map[string]time.Duration{"Asia/Kolkata": 30 * time.Minute, "Asia/Kathmandu": 15 * time.Minute} {
		n := historical(t, filepath.Join(t.TempDir(), "data"), func(cfg *node.Config) { cfg.History.Slot = slot })
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		year, month, day := time.Now().In(zone).Date()
		first := time.Date(year, month, day-10, 0, 0, 0, 0, zone)
		rnd := rand.New(rand.NewPCG(5, 6))
		want := make([]uint64, 10)
		for range 3000 {
			second := rnd.Int64N(10 * 86400) // these zones' clocks do not change
			hitAt(t, n, "k", first.Add(time.Duration(second)*time.Second), 1)
			want[second/86400]++
		}
		for i, p := range aligned(t, n, fmt.Sprintf("key=k&align=day&tz=%s&from=%d", name, first.Unix())).Points[:10] {
			if !p.Exact || p.Estimate != want[i] || !p.Start.Equal(first.AddDate(0, 0, i)) {
				t.Errorf("%s, day %d: %s, want %d; it begins at %s", name, i, p.Bounds, want[i], p.Start)
			}
		}
	}
}

// Without history the windows answer, within their bounds.
func TestAlignedWithoutHistory(t *testing.T) {
	t.Parallel()
	n := historical(t, filepath.Join(t.TempDir(), "data"), func(cfg *node.Config) { cfg.History.On = false })
	now := time.Now().UTC()
	hitAt(t, n, "k", now.Add(-time.Second), 5)
	got := aligned(t, n, "key=k&align=month&tz=Asia/Kolkata&from=-1s")
	if got.Source != "windows" || len(got.Points) != 1 || got.Points[0].Estimate != 5 || got.Zone != "Asia/Kolkata" {
		t.Fatalf("%+v", got)
	}
}

// What is exported is what was counted.
func TestExport(t *testing.T) {
	t.Parallel()
	n := historical(t, filepath.Join(t.TempDir(), "data"), nil)
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
	hitAt(t, n, "url:/a", day.Add(5*time.Hour), 7)
	hitAt(t, n, "url:/a", day.Add(6*time.Hour), 8)
	hitAt(t, n, "url:/b,\"c\"", day.AddDate(0, 0, 1), 1)
	hitAt(t, n, "user:1", day, 1)
	aligned(t, n, "key=url:/a&align=day&from=-3d")
	get := func(query string) string {
		response, err := http.Get("http://" + n.Addr() + "/v1/export?" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	first, second := day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)
	if got, want := get("prefix=url:"), "key,start,hits,doubt\nurl:/a,"+first+",15,0\n\"url:/b,\"\"c\"\"\","+second+",1,0\n"; got != want {
		t.Errorf("days:\n%swant\n%s", got, want)
	}
	fifth, sixth := day.Add(5*time.Hour).Format(time.RFC3339), day.Add(6*time.Hour).Format(time.RFC3339)
	if got, want := get("prefix=url:/a&unit=hour"), "key,start,hits,doubt\nurl:/a,"+fifth+",7,0\nurl:/a,"+sixth+",8,0\n"; got != want {
		t.Errorf("hours:\n%swant\n%s", got, want)
	}
	if got := get("format=parquet"); !strings.Contains(got, "format must be csv") {
		t.Errorf("a format that is not written: %s", got)
	}
}

// A prefix that is deleted is gone from history too, also keys that are held no more, and what is
// counted afterwards begins anew.
func TestDeletePrefix(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := historical(t, dir, nil)
	now := time.Now()
	for i := range 1200 {
		hitAt(t, n, fmt.Sprintf("user:%04d", i), now.Add(-48*time.Hour), 1)
	}
	hitAt(t, n, "users", now.Add(-48*time.Hour), 1)
	count := func(key string) (hits uint64) {
		for _, p := range aligned(t, n, "key="+key+"&align=day&from=-3d").Points {
			hits += p.Estimate
		}
		return hits
	}
	if got := count("user:0007"); got != 1 {
		t.Fatal(got, "hits of a key that has one")
	}
	if _, err := n.Engine().Delete("user:0007"); err != nil {
		t.Fatal(err)
	}
	nodetest.Close(t, n)
	n = historical(t, dir, func(cfg *node.Config) {
		cfg.Engine.Retention, cfg.Journal.ShrinkRetention = 24*time.Hour, true
	}) // no key is held any more
	if got := count("user:0008"); got != 1 {
		t.Fatal(got, "hits of a key that is older than the retention")
	}
	c, err := client.New("http://"+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	for after := ""; ; {
		answer, err := c.DeletePrefix(t.Context(), client.DeleteQuery{Prefix: "user:", After: after})
		if err != nil {
			t.Fatal(err)
		}
		if deleted += answer.Deleted; answer.Next == "" {
			break
		}
		after = answer.Next
	}
	if deleted != 1199 {
		t.Errorf("%d keys were deleted, of 1199", deleted)
	}
	for key, want := range map[string]uint64{"user:0008": 0, "user:1199": 0, "user:0007": 0, "users": 1, "*": 1201} {
		if got := count(key); got != want {
			t.Errorf("%s: %d hits are left, want %d", key, got, want)
		}
	}
	if err := c.Delete(t.Context(), "users"); err != nil {
		t.Error("a key that only history knows:", err)
	}
	if got := count("users"); got != 0 {
		t.Errorf("%d hits of it are left", got)
	}
}
