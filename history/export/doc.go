// Package export writes rows of history as CSV or Parquet, one after the other: its memory does
// not grow with their number.
package export
