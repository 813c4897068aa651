package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testNow = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func testLog(t testing.TB, lines int, seed uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeLog(&b, logConfig{lines: lines, seed: seed, start: testNow.Add(-24 * time.Hour), perSecond: 3, paths: 500, hosts: 900, lateEvery: 10}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ofText runs Run on a file with the given text.
func ofText(t testing.TB, text []byte, o Options) (*Report, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Files = []string{name}
	if o.Now == nil {
		o.Now = func() time.Time { return testNow }
	}
	report, err := Run(context.Background(), o)
	if report != nil {
		report.Files[0].Name = "access.log"
		for i := range report.MalformedLines {
			report.MalformedLines[i].File = "access.log"
		}
	}
	return report, err
}

func encode(t testing.TB, r *Report) string {
	t.Helper()
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (rewrite it with -update):\n%s", path, got)
	}
}

func TestReport(t *testing.T) {
	text := testLog(t, 5000, 1)
	text = append(text, "rubbish \x1b[31m\n\n10.0.0.1 - - [31/Jan/2026:12:00:06 +0000] \"GET /tomorrow HTTP/1.1\" 200 1\n"+
		"::1 - - [31/Jan/2026:11:59:00 +0000] \"-\" 408 -\r\n"+
		"::1 - - [31/Jan/2026:11:59:00 +0000] \"OPTIONS * HTTP/1.0\" 200 1"...)
	report, err := ofText(t, text, Options{
		Keys: []string{"url:{path}", "status:{status}"}, Top: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := report.Print(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.String())
	golden(t, "report.json", encode(t, report)+"\n")
}

// The report must not depend on how many workers there are, nor on how the log
// is cut: its chunks are worked on in any order.
func TestWorkersDoNotMatter(t *testing.T) {
	text := testLog(t, 60_000, 2) // about a dozen chunks
	text = append(text, "rubbish\n"...)
	text = append(append([]byte("rubbish at the start\n"), text...), text...)
	o := Options{Top: 1000}
	var want string
	for _, workers := range []int{1, 2, 3, 8} {
		o.Workers = workers
		report, err := ofText(t, text, o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Lines != 120_000 || report.Malformed != 3 || report.MalformedLines[1].Line != 60_002 || report.MalformedLines[2].Line != 120_003 {
			t.Fatalf("%d lines, malformed %+v", report.Lines, report.MalformedLines)
		}
		got := encode(t, report)
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("the report of %d workers differs:\n%s\nwant\n%s", workers, got, want)
		}
	}
}

func gz(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zst(t testing.TB, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(text, nil)
}

func TestCompressed(t *testing.T) {
	text := testLog(t, 20_000, 3)
	want, err := ofText(t, text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	half := len(text) / 2
	for name, packed := range map[string][]byte{
		"gzip": gz(t, text), "zstd": zst(t, text),
		"two gzip members": append(gz(t, text[:half]), gz(t, text[half:])...),
		"CRLF":             bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
		"BOM":              append([]byte("\ufeff"), text...),
		"no last line end": text[:len(text)-1],
	} {
		got, err := ofText(t, packed, Options{})
		if err != nil || encode(t, got) != encode(t, want) {
			t.Errorf("%s: %v, %d lines, %d malformed", name, err, got.Lines, got.Malformed)
		}
	}
	for name, packed := range map[string][]byte{"gzip": gz(t, text), "zstd": zst(t, text)} {
		got, err := ofText(t, packed[:len(packed)*2/3], Options{})
		if err == nil || !strings.Contains(err.Error(), "the "+name+" data is cut short") {
			t.Errorf("%s cut short: %v", name, err)
		}
		if got.Lines < 5000 || got.Lines >= 20_000 || got.Malformed != 0 || got.Files[0].Problem == "" {
			t.Errorf("%s cut short: %d lines, %d malformed, problem %q", name, got.Lines, got.Malformed, got.Files[0].Problem)
		}
	}
}

// Of a file that is cut short everything counts that can be decompressed, also
// when it is less than a chunk.
func TestCutShort(t *testing.T) {
	text := testLog(t, 5000, 4)
	for name, packed := range map[string][]byte{"gzip": gz(t, text), "zstd": zst(t, text)} {
		got, err := ofText(t, packed[:len(packed)*2/3], Options{})
		if err == nil || !strings.Contains(err.Error(), "the "+name+" data is cut short") || got.Files[0].Problem == "" {
			t.Errorf("%s: %v, problem %q", name, err, got.Files[0].Problem)
		}
		if got.Lines < 2000 || got.Lines >= 5000 || got.Malformed != 0 {
			t.Errorf("%s: %d lines, %d malformed; want about two thirds of 5000", name, got.Lines, got.Malformed)
		}
	}
}

func TestOddFiles(t *testing.T) {
	good := strings.ReplaceAll(logLine("/a"), "1999", "2020")
	for _, test := range []struct {
		name, text       string
		lines, malformed int
		err              string
	}{
		{"empty", "", 0, 0, ""},
		{"only line ends", "\n\r\n\n", 0, 0, ""},
		{"rubbish", "\x00\x01\xff\xfe\n\x80", 0, 2, "no line fits a format: clf"},
		{"CSV", "time,url\n2026-01-01,/a\n", 0, 2, "tsv (not `epoch count [key]`)"},
		{"long line", good + strings.Repeat("x", MaxLineBytes+1) + "\n" + good, 2, 1, ""},
		{"line longer than a chunk", good + strings.Repeat("x", 3*chunkBytes) + "\n" + good, 2, 1, ""},
		{"long line at the end", good + strings.Repeat("x", 3*chunkBytes), 1, 1, ""},
		{"from the future", strings.ReplaceAll(good, "2020", "2027"), 0, 0, "the only line is from the future"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := ofText(t, []byte(test.text), Options{})
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %v, want %q", err, test.err)
			}
			wantLines(t, r, test.lines, test.malformed)
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	a := file("a", "200 1 x\n100 2 y\n") // the second line is late
	b := file("b", "150 3 x\n")          // not late: another file
	c := file("c", "{\"at\":160}\n")     // not the format of the others
	r, err := Run(context.Background(), Options{
		Files: []string{a, Stdin, b, c}, Stdin: strings.NewReader("rubbish\n300 4 z\n"),
	})
	if err == nil || !strings.Contains(err.Error(), "it reads as json, but the file before as tsv") {
		t.Errorf("mixed formats: %v", err)
	}
	if r.Lines != 4 || r.Hits != 10 || r.Late != 1 || r.Malformed != 1 || r.MalformedLines[0].File != Stdin {
		t.Errorf("got %+v", r)
	}
	if got := fmt.Sprint(r.Top[0].Keys); got != "[{x 4 4 4} {z 4 4 4} {y 2 2 2}]" {
		t.Errorf("top: %s", got)
	}
}

func TestOptions(t *testing.T) {
	packed := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(packed, gz(t, []byte("1 1 x\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		field   string
		options Options
	}{
		{"Files", Options{}},
		{"Files", Options{Files: []string{"-", "-"}}},
		{"Follow", Options{Files: []string{"-"}, Follow: true}},
		{"FromEnd", Options{Files: []string{"-"}, FromEnd: true}},
		{"Follow", Options{Files: []string{packed}, Follow: true}},
		{"Format", Options{Files: []string{"-"}, Format: "xml"}},
		{"Keys", Options{Files: []string{"-"}, Keys: []string{"{"}}},
		{"Keys", Options{Files: []string{"-"}, Format: CLF, Keys: []string{"{nothing}"}}},
		{"Top", Options{Files: []string{"-"}, Top: -1}},
	} {
		r, err := Run(context.Background(), test.options)
		var wrong *OptionError
		if !errors.As(err, &wrong) || wrong.Field != test.field || r != nil {
			t.Errorf("%+v: got %v, want an error of %s", test.options, err, test.field)
		}
	}
}

func TestUnknownFieldOfDetectedFormat(t *testing.T) {
	r, err := ofText(t, testLog(t, 10, 1), Options{Keys: []string{"x:{nothing}"}})
	var wrong *OptionError
	if r != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), "a clf log has no field {nothing}") {
		t.Error(err)
	}
}

// A log whose lines lack a field that a template names is not counted in silence.
func TestFieldThatNoLineHas(t *testing.T) {
	for _, test := range []struct {
		text, key string
		err       string // part of the error; empty is none
		warning   string
	}{
		{`{"time_iso8601":"2026-01-31T11:00:00Z","uri":"/a","n":1,"x":{"y":1}}`, "url:{path}", "url:{path}: no line has such a field; the lines have {n} {time_iso8601} {uri}", ""},
		{`{"when":"2026-01-31T11:00:00Z","uri":"/a"}`, "url:{uri}", "no line could be read as json", ""},
		{`{"ts":"2026-01-31T11:00:00Z","uri":"/a"}`, "", "", "no line has a key of {key}; the lines have {ts} {uri}"},
		{`h - - [31/Jan/2026:11:00:00 +0000] "GET / HTTP/1.0" 200 1`, "from:{referer}", "the lines have {host} {time} {request} {method} {path} {proto} {status} {bytes}", ""},
		{"1769857200\t1", "{key}", "no line has such a field; the lines have no fields", ""},
		{"1769857200\t1", "", "", ""},
	} {
		var keys []string
		if test.key != "" {
			keys = []string{test.key}
		}
		r, err := ofText(t, []byte(test.text+"\n"), Options{Keys: keys})
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || r == nil || !strings.HasPrefix(r.Warning, test.warning) || (r.Warning == "") != (test.warning == "") {
			t.Errorf("%s by %q: error %v, warning %q", test.text, test.key, err, r.Warning)
		}
		if strings.Contains(test.err, "could not be read") && (len(r.MalformedLines) != 1 || !strings.HasPrefix(r.MalformedLines[0].Reason, "no time in a field")) {
			t.Errorf("malformed lines %+v", r.MalformedLines)
		}
	}
}

// blocked is a standard input that never gives anything, and says when it is asked.
type blocked struct{ asked func() }

func (b blocked) Read([]byte) (int, error) {
	b.asked()
	select {}
}

func TestInterrupt(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("1 1 x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(ctx, Options{Files: []string{name, Stdin}, Stdin: blocked{stop}}) // which must not keep Run
	if !errors.Is(err, context.Canceled) || r == nil {
		t.Errorf("got %v, report %v", err, r)
	}
}
