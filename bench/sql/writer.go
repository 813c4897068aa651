package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	internalhistory "github.com/weir-counter/weir/internal/history"
)

// byWriter measures hits inside this process: the engine counts them, the journal stores them on disk, and the history
// writer reads them there. It ends when the database has all of them.
func byWriter(ctx context.Context, cfg settings, d *database, l load) (r row, err error) {
	url, db, err := d.make(ctx, 1)
	if err != nil {
		return r, err
	}
	defer db.Close()
	dir, err := os.MkdirTemp(cfg.scratch, "writer-*")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e, err := engine.New(engine.Config{Gather: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var open atomic.Pointer[internalhistory.History]
	j, err := durable.Open(ctx, e, durable.Config{Dir: dir, Needed: func(haste bool) uint64 {
		if h := open.Load(); h != nil {
			return h.Needed(haste, 0)
		}
		return 1
	}}, nil)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, j.Close(ctx)) }()
	h, err := internalhistory.Open(internalhistory.Config{URL: url, Every: historyEvery, Sync: j.Sync}, dir, j.Messages(), j.Origin(), e.Config().Retention, nil)
	if err != nil {
		return r, err
	}
	open.Store(h)
	defer func() { err = errors.Join(err, h.Close()) }()
	written := func() error { // all that was counted before
		ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it takes too long"))
		defer cancel()
		return h.Await(ctx)
	}
	if err := written(); err != nil { // the tables are there
		return r, err
	}
	names := make([]string, l.keys)
	for k := range names {
		names[k] = name(k)
	}

	r = row{database: d.name, way: writerWay, load: l}
	stop, err := r.measured(d, 0)
	if err != nil {
		return r, err
	}
	var hits atomic.Uint64
	if err := send(ctx, cfg, l, batch, func(_ int, keys []int) error {
		for _, k := range keys {
			if err := e.Hit(names[k]); err != nil {
				return err
			}
		}
		hits.Add(uint64(len(keys)))
		return nil
	}); err != nil {
		return r, err
	}
	if err := written(); err != nil {
		return r, err
	}
	r.hits = hits.Load()
	if err := stop(); err != nil {
		return r, err
	}
	return r, r.check(ctx, db)
}

// writerWay is what the page calls it.
const writerWay = "(f) Weir's writer of history"

// check compares the tables of history with what was sent.
func (r *row) check(ctx context.Context, db *sql.DB) error {
	var sum uint64
	if err := db.QueryRowContext(ctx, "SELECT COALESCE(SUM(hits), 0) FROM weir_daily").Scan(&sum); err != nil {
		return err
	}
	if sum != 2*r.hits { // of the keys, and of *
		return fmt.Errorf("%s, %s: %d hits are in history, and %d were sent", r.database, r.way, sum/2, r.hits)
	}
	return nil
}
