package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/weir-counter/weir/internal/history/calendar"
)

// Files of no row, of some, and of more than fit into one group are read as they were written.
func TestOthersReadIt(t *testing.T) {
	t.Parallel()
	type row struct {
		Key   string `parquet:"key"`
		Start int64  `parquet:"start,timestamp(millisecond)"`
		Hits  uint64 `parquet:"hits"`
		Doubt uint64 `parquet:"doubt"`
	}
	for _, n := range []int{0, 1, 20, 250_001} {
		var file bytes.Buffer
		w, err := calendar.NewExport("parquet", &file)
		if err != nil {
			t.Fatal(err)
		}
		rowOf := func(i int) calendar.ExportRow {
			return calendar.ExportRow{Key: fmt.Sprintf("ключ:%d", i%1000), Start: int64(i) * 3600, N: uint64(i) << 20, Doubt: uint64(i % 3)}
		}
		for i := range n {
			if err := w.Write(rowOf(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		opened, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			t.Fatal(err)
		}
		r := parquet.NewGenericReader[row](opened)
		if r.NumRows() != int64(n) {
			t.Fatalf("%d rows, want %d", r.NumRows(), n)
		}
		rows, at := make([]row, 1000), 0
		for {
			some, err := r.Read(rows)
			for _, got := range rows[:some] {
				if want := rowOf(at); got != (row{want.Key, want.Start * 1000, want.N, want.Doubt}) {
					t.Fatalf("row %d: %+v, want %+v", at, got, want)
				}
				at++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if at != n {
			t.Fatalf("%d rows were read, want %d", at, n)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
