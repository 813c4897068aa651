package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Lease is the right to write the history of one journal, and what is written so far. It lasts
// as long as it is renewed, by Claim or Commit: the database's clock says.
type Lease struct {
	Journal string
	Holder  string
	TTL     time.Duration

	Token    int64
	Origin   int64
	Slot     time.Duration // how wide slots are, since the first writer of the journal
	Position []byte        // nil: nothing was written yet
	Message  uint64
	AsOf     time.Time
	Rolled   int64 // the first day that is not summed up in weir_days
	Gaps     int   // how many times are noted of which hits may be missing
}

// Claim takes the lease of a journal, or renews the one with the token; 0: this life of
// the holder has none. slot is what its slots are to be like if this is the first time. It
// returns ErrHeld while another holder has it, and another error if a later version of Weir has changed the tables.
func (s *Store) Claim(ctx context.Context, journal, holder string, token int64, ttl, slot time.Duration) (l Lease, err error) {
	l = Lease{Journal: journal, Holder: holder, TTL: ttl}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		var is int64
		if err := tx.QueryRowContext(ctx, "SELECT MAX(version_id) FROM weir_migrations").Scan(&is); err != nil {
			return err
		}
		if err := s.checkVersion(is); err != nil {
			return err
		}
		if err := s.introduce(ctx, tx, journal, slot); err != nil {
			return err
		}
		var now, until, asOf, seconds int64
		var was string
		if err := tx.QueryRowContext(ctx, s.d.sql("SELECT origin, slot, position, message, as_of, rolled, token, holder, until, "+s.d.now+" FROM weir_journals WHERE journal = ?"+s.d.locking), journal).
			Scan(&l.Origin, &seconds, &l.Position, &l.Message, &asOf, &l.Rolled, &l.Token, &was, &until, &now); err != nil {
			return err
		}
		l.Slot, l.AsOf = time.Duration(seconds)*time.Second, time.UnixMilli(asOf)
		if err := tx.QueryRowContext(ctx, s.d.sql("SELECT COUNT(*) FROM weir_gaps WHERE journal = ?"), journal).Scan(&l.Gaps); err != nil {
			return err
		}
		if was != holder && until > now {
			return ErrHeld
		}
		if was != holder || token != l.Token {
			l.Token++
		}
		_, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET token = ?, holder = ?, until = ? WHERE journal = ?"), l.Token, holder, now+ttl.Milliseconds(), journal)
		return err
	})
	return l, err
}

// introduce makes the rows of a journal that is new.
func (s *Store) introduce(ctx context.Context, tx *sql.Tx, journal string, slot time.Duration) error {
	var known int64
	err := tx.QueryRowContext(ctx, s.d.sql("SELECT origin FROM weir_journals WHERE journal = ?"), journal).Scan(&known)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	origin, err := s.newOrigin(ctx, tx, journal, true)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, s.d.sql("INSERT INTO weir_journals (journal, origin, slot) VALUES (?, ?, ?)"), journal, origin, int64(slot/time.Second))
	return err
}

// newOrigin makes another origin of a journal: that of its writer, or of a filling.
func (s *Store) newOrigin(ctx context.Context, tx *sql.Tx, journal string, complete bool) (origin int64, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(origin), 0) + 1 FROM weir_origins").Scan(&origin); err != nil {
		return 0, err
	}
	is := 0
	if complete {
		is = 1
	}
	_, err = tx.ExecContext(ctx, s.d.sql("INSERT INTO weir_origins (origin, journal, complete) VALUES (?, ?, ?)"), origin, journal, is)
	return origin, err
}

// Release gives a lease back, so that another can have it at once.
func (s *Store) Release(ctx context.Context, l *Lease) error {
	_, err := s.writes.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET until = 0 WHERE journal = ? AND token = ?"), l.Journal, l.Token)
	return err
}

// fence renews a lease in a transaction, whose rows count only if it is still the newest.
func (s *Store) fence(ctx context.Context, tx *sql.Tx, l *Lease) error {
	done, err := tx.ExecContext(ctx, s.d.sql("UPDATE weir_journals SET until = "+s.d.now+" + ? WHERE journal = ? AND token = ?"), l.TTL.Milliseconds(), l.Journal, l.Token)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(ErrFenced, err)
	}
	return nil
}

// tx runs f in a transaction.
func (s *Store) tx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.writes.BeginTx(ctx, &sql.TxOptions{Isolation: s.d.level})
	if err != nil {
		return s.named(err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // err says why
		return s.named(err)
	}
	return s.named(tx.Commit())
}

// named says which database an error is of.
func (s *Store) named(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrFenced), errors.Is(err, ErrHeld), errors.Is(err, errLater), errors.Is(err, context.Canceled):
		return err
	case isFull(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("history: %s: %w", s.where, err)
}
