// Package history keeps exact totals of keys for years: per slot of an hour, and per day, in a SQL
// database. It puts its rooms together: store (the tables), writer (follows the journal), read
// (answers), calendar (days of a time zone). docs/history.md says what users see.
//
// Invariant: nothing of it slows hits. What it lacks is said: AsOf in every answer, and no upper
// bound where hits may be missing.
package history
