package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/window"
)

const (
	verifyTime  = time.Hour // for the journal of one server
	verifyTries = 3
	verifyKeys  = 1000
	verifyAsked = 100 // keys of one question

	// verifyDelay is how old compared hits are at least: hits that other nodes took may be on their way.
	verifyDelay = 3 * time.Second
)

// verifyWindows are compared, as far as the retention reaches: counts in the first are exact.
var verifyWindows = []time.Duration{5 * time.Minute, 24 * time.Hour}

// verification compares servers at one time.
type verification struct {
	doctor
	at      time.Time
	windows []time.Duration
	servers []verifying
}

// verifying is a server that is verified. Its counts, by key and window, are of its journal; engine.AllKeys is among the keys.
type verifying struct {
	name   string
	client *client.Client
	counts map[string][]window.Count
}

// verifyServers compares servers that run. Hits that are late change counts, so only what differs each time is reported.
func verifyServers(ctx context.Context, servers []verifying) []finding {
	for tries := 1; ; tries++ {
		v := &verification{servers: servers}
		v.run(ctx)
		if tries == verifyTries || ctx.Err() != nil || !slices.ContainsFunc(v.findings, finding.fails) {
			return v.findings
		}
	}
}

func (v *verification) run(ctx context.Context) {
	for i := range v.servers {
		v.server = v.servers[i].name
		is, err := v.servers[i].client.Cluster(ctx)
		if v.addResult("answers", err, "start it, or give --server, --token and --ca as it needs", "it runs"); err != nil {
			return
		}
		if now := is.Now.Add(-verifyDelay).Truncate(time.Second); i == 0 || now.Before(v.at) {
			v.at = now
		}
		if j := is.Journal; j != nil {
			v.add("audit", float64(j.Divergence)+float64(j.Holes)+float64(j.LossyFindings), 1, 1, "stop the node and run weir verify --data",
				"since its start: %d findings of missing hits, %d messages lost, %d damages that lost hits", j.Divergence, j.Holes, j.LossyFindings)
		}
	}
	for i := range v.servers {
		v.server = v.servers[i].name
		says, err := v.readJournal(ctx, i)
		if v.addResult("journal", err, "restore a backup, or replace the node of a cluster", says); err != nil {
			return
		}
	}
	for i := range v.servers {
		v.server = v.servers[i].name
		for k := range v.servers {
			differ, err := v.differences(ctx, i, v.servers[k].counts)
			if err != nil {
				v.addResult("counts", err, "ask again when it is ready", "")
				break
			}
			v.add("counts", float64(len(differ)), 1, 1, "restart the node, which reads its journal again", "%d keys at %s as in the journal of %s; other than there: %s",
				len(v.servers[k].counts), v.at.UTC().Format(time.RFC3339), v.servers[k].name, cmp.Or(strings.Join(differ[:min(3, len(differ))], ", "), "none"))
		}
	}
}

// readJournal reads the journal of a server as a backup, and keeps the counts of some keys: of a sample, or of the first server's.
func (v *verification) readJournal(ctx context.Context, i int) (says string, err error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	body, err := v.servers[i].client.Backup(ctx)
	if err != nil {
		return "", err
	}
	defer body.Close()
	dir, err := os.MkdirTemp("", "weir-verify-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := backup.NewSpool(ctx, body, filepath.Join(dir, "backup"), backup.Unbounded)
	if err != nil {
		return "", err
	}
	if i == 0 {
		for _, length := range verifyWindows {
			v.windows = append(v.windows, min(length, time.Duration(s.Info.RetentionS)*time.Second))
		}
		v.windows = slices.Compact(v.windows)
	}
	counts, keys := map[string][]window.Count{}, 0
	add := func(key string, w *window.Window) {
		if counts[key] == nil {
			counts[key] = make([]window.Count, len(v.windows))
		}
		for k, length := range v.windows {
			counts[key][k] = counts[key][k].Plus(w.Count(v.at.Unix(), int64(length/time.Second)))
		}
	}
	err = s.Each(ctx, func(_ *engine.Engine, c replication.Content) error {
		add(engine.AllKeys, &c.Total)
		keys += len(c.Keys)
		every := 1 + len(c.Keys)*s.Info.Partitions/verifyKeys
		for k := range c.Keys {
			key := c.Keys[k].Key
			wanted := k%every == 0
			if i > 0 {
				_, wanted = v.servers[0].counts[key]
			}
			if wanted && key != "" && !strings.HasPrefix(key, engine.SampledPrefix) {
				add(key, &c.Keys[k].Window)
			}
		}
		return nil
	}, func([][]byte, []replication.Request) error { return nil })
	v.servers[i].counts = counts
	return fmt.Sprintf("%s with %d messages after the snapshots, %d keys: checksums and running totals agree", units.FormatSize(s.Info.Bytes), s.Info.Last+1-s.Info.First, keys), err
}

// differences returns the keys that a server counts otherwise than a journal.
func (v *verification) differences(ctx context.Context, i int, want map[string][]window.Count) (differ []string, err error) {
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(want)), verifyAsked) {
		list, err := v.servers[i].client.Count(ctx, client.CountQuery{Keys: keys, Windows: v.windows, At: v.at, Scope: client.ScopeRegion})
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			k := slices.Index(v.windows, time.Duration(a.WindowSeconds)*time.Second)
			if k < 0 || want[a.Key] == nil {
				continue
			}
			w := want[a.Key][k]
			if a.Lower > w.Upper || a.HasUpper() && *a.Upper < w.Lower {
				differ = append(differ, fmt.Sprintf("%.60q in %s: %s, the journal has %s", a.Key, units.FormatDuration(v.windows[k]), a.Bounds, w))
			}
		}
	}
	return differ, nil
}
