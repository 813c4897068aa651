package store

import "database/sql"

// DB is the database itself, for tests that look at its tables.
func (s *Store) DB() *sql.DB { return s.writes() }
