package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Row is the hits of a key in a span that begins at Start: N to N+Doubt.
type Row struct {
	Key      string
	Start    int64 // Unix seconds
	N, Doubt uint64
}

// Writer writes rows. Close ends the file; without it, it is not whole.
type Writer interface {
	Write(Row) error
	Close() error
}

// Formats are the names of the formats, with their media types.
var Formats = map[string]string{"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}

// New returns a writer of a format.
func New(format string, to io.Writer) (Writer, error) {
	switch format {
	case "csv":
		return newCSV(to)
	case "parquet":
		return newParquet(to), nil
	}
	return nil, fmt.Errorf("%.40q is no format: csv or parquet", format)
}

// csvWriter writes a line for each row: key, start (RFC 3339), hits, doubt.
type csvWriter struct{ to *csv.Writer }

func newCSV(to io.Writer) (*csvWriter, error) {
	w := &csvWriter{csv.NewWriter(to)}
	return w, w.to.Write([]string{"key", "start", "hits", "doubt"})
}

func (w *csvWriter) Write(r Row) error {
	return w.to.Write([]string{r.Key, time.Unix(r.Start, 0).UTC().Format(time.RFC3339), strconv.FormatUint(r.N, 10), strconv.FormatUint(r.Doubt, 10)})
}

func (w *csvWriter) Close() error {
	w.to.Flush()
	return w.to.Error()
}
