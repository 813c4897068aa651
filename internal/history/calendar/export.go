package calendar

import (
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// This file writes rows of history as CSV or Parquet, one after the other: its memory does
// not grow with their number.

// ExportRow is the hits of a key in a span that begins at Start: N to N+Doubt.
type ExportRow struct {
	Key      string
	Start    int64 // Unix seconds
	N, Doubt uint64
}

// ExportWriter writes rows. Close ends the file; without it, it is not whole.
type ExportWriter interface {
	Write(ExportRow) error
	Close() error
}

// ExportFormats are the names of the formats, with their media types.
var ExportFormats = map[string]string{"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}

// NewExport returns a writer of a format.
func NewExport(format string, to io.Writer) (ExportWriter, error) {
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

func (w *csvWriter) Write(r ExportRow) error {
	return w.to.Write([]string{csvText(r.Key), time.Unix(r.Start, 0).UTC().Format(time.RFC3339), strconv.FormatUint(r.N, 10), strconv.FormatUint(r.Doubt, 10)})
}

// csvText puts a ' before a key that a spreadsheet would take for a formula, or that begins with ' itself. Without it, the text is
// the key.
func csvText(key string) string {
	if key != "" && (key[0] < ' ' || strings.IndexByte("=+-@'", key[0]) >= 0) {
		return "'" + key
	}
	return key
}

func (w *csvWriter) Close() error {
	w.to.Flush()
	return w.to.Error()
}

// A file of Parquet: the columns key (text), start (ms of UTC), hits and doubt (whole numbers), none
// of them ever null. Rows are in groups; of each group the columns follow each other, each as one
// page: plain values, compressed with Zstandard. The footer says where they are, in Thrift's
// compact protocol (thrift). https://github.com/apache/parquet-format is the format. It is written here because
// github.com/parquet-go/parquet-go adds 4.9 MB to the program.
const parquetMagic = "PAR1"

// groupRows and groupBytes bound a group, which is kept until it is written.
const (
	groupRows  = 100_000
	groupBytes = 8 << 20
)

// The numbers of the format.
const (
	typeInt64, typeBytes           = 2, 6
	convertedText, convertedMillis = 0, 9
	convertedUnsigned              = 14
	codecZstd                      = 6
	encodingPlain, encodingRLE     = 0, 3
)

var columns = []struct {
	name            string
	kind, converted int64
}{{"key", typeBytes, convertedText}, {"start", typeInt64, convertedMillis}, {"hits", typeInt64, convertedUnsigned}, {"doubt", typeInt64, convertedUnsigned}}

type parquetWriter struct {
	to     io.Writer
	zip    *zstd.Encoder
	offset int64
	err    error

	values [4][]byte // of the group, by column
	rows   int64     // of the group
	groups []group
	all    int64
}

type group struct {
	rows, bytes int64
	chunks      [4]chunk
}

// chunk is a column of a group: where its page is, and how large that is with its header.
type chunk struct{ at, raw, stored int64 }

func newParquet(to io.Writer) *parquetWriter {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		panic(err) // options are right
	}
	w := &parquetWriter{to: to, zip: zip}
	w.put([]byte(parquetMagic))
	return w
}

func (w *parquetWriter) put(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	w.offset, w.err = w.offset+int64(n), err
}

func (w *parquetWriter) Write(r ExportRow) error {
	w.values[0] = append(binary.LittleEndian.AppendUint32(w.values[0], uint32(len(r.Key))), r.Key...)
	for i, v := range []uint64{uint64(r.Start * 1000), r.N, r.Doubt} {
		w.values[i+1] = binary.LittleEndian.AppendUint64(w.values[i+1], v)
	}
	w.rows++
	if w.rows == groupRows || len(w.values[0]) > groupBytes {
		w.flush()
	}
	return w.err
}

func (w *parquetWriter) flush() {
	if w.rows == 0 {
		return
	}
	g := group{rows: w.rows}
	for i := range columns {
		stored := w.zip.EncodeAll(w.values[i], nil)
		var header thrift
		header.begin()
		header.int(1, 0) // a page of data
		header.int(2, int64(len(w.values[i])))
		header.int(3, int64(len(stored)))
		header.object(5, func() {
			header.int(1, w.rows)
			header.int(2, encodingPlain)
			header.int(3, encodingRLE)
			header.int(4, encodingRLE)
		})
		header.end()
		c := chunk{at: w.offset, raw: int64(len(header.b) + len(w.values[i])), stored: int64(len(header.b) + len(stored))}
		w.put(header.b)
		w.put(stored)
		g.chunks[i] = c
		g.bytes += c.raw
		w.values[i] = w.values[i][:0]
	}
	w.groups = append(w.groups, g)
	w.all += w.rows
	w.rows = 0
}

// Close writes the footer.
func (w *parquetWriter) Close() error {
	w.flush()
	var f thrift
	f.begin()
	f.int(1, 1)
	f.list(2, len(columns)+1, func(i int) {
		if i == 0 {
			f.text(4, "weir")
			f.int(5, int64(len(columns)))
			return
		}
		f.int(1, columns[i-1].kind)
		f.int(3, 0) // required
		f.text(4, columns[i-1].name)
		f.int(6, columns[i-1].converted)
	})
	f.long(3, w.all)
	f.list(4, len(w.groups), func(i int) {
		g := &w.groups[i]
		f.list(1, len(columns), func(k int) { w.chunk(&f, g, k) })
		f.long(2, g.bytes)
		f.long(3, g.rows)
	})
	f.text(6, "weir")
	f.end()
	w.put(f.b)
	w.put(append(binary.LittleEndian.AppendUint32(nil, uint32(len(f.b))), parquetMagic...))
	return w.err
}

func (w *parquetWriter) chunk(f *thrift, g *group, k int) {
	c := g.chunks[k]
	f.long(2, c.at)
	f.object(3, func() {
		f.int(1, columns[k].kind)
		f.ints(2, encodingPlain, encodingRLE)
		f.texts(3, columns[k].name)
		f.int(4, codecZstd)
		f.long(5, g.rows)
		f.long(6, c.raw)
		f.long(7, c.stored)
		f.long(9, c.at)
	})
}

// thrift writes structs in Thrift's compact protocol, as far as Parquet's footer needs it. Fields
// come in the order of their numbers.
type thrift struct {
	b    []byte
	last []int // number of the last field, of each struct that is open
}

const (
	thriftInt, thriftLong, thriftBytes, thriftList, thriftStruct = 5, 6, 8, 9, 12
)

func (t *thrift) begin() { t.last = append(t.last, 0) }

func (t *thrift) end() {
	t.b = append(t.b, 0)
	t.last = t.last[:len(t.last)-1]
}

// field writes the head of a field; numbers of ours are less than 16 apart.
func (t *thrift) field(number int, kind byte) {
	last := &t.last[len(t.last)-1]
	t.b = append(t.b, byte(number-*last)<<4|kind)
	*last = number
}

func (t *thrift) number(v int64) { t.b = binary.AppendVarint(t.b, v) }

func (t *thrift) string(s string) {
	t.b = append(binary.AppendUvarint(t.b, uint64(len(s))), s...)
}

func (t *thrift) int(field int, v int64)  { t.field(field, thriftInt); t.number(v) }
func (t *thrift) long(field int, v int64) { t.field(field, thriftLong); t.number(v) }

func (t *thrift) text(field int, s string) { t.field(field, thriftBytes); t.string(s) }

func (t *thrift) object(field int, content func()) {
	t.field(field, thriftStruct)
	t.begin()
	content()
	t.end()
}

func (t *thrift) head(field, n int, kind byte) {
	t.field(field, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n)<<4|kind)
		return
	}
	t.b = binary.AppendUvarint(append(t.b, 0xf0|kind), uint64(n))
}

func (t *thrift) list(field, n int, content func(i int)) {
	t.head(field, n, thriftStruct)
	for i := range n {
		t.begin()
		content(i)
		t.end()
	}
}

func (t *thrift) ints(field int, list ...int64) {
	t.head(field, len(list), thriftInt)
	for _, v := range list {
		t.number(v)
	}
}

func (t *thrift) texts(field int, list ...string) {
	t.head(field, len(list), thriftBytes)
	for _, s := range list {
		t.string(s)
	}
}
