package httpapi

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/weir-counter/weir/internal/engine"
)

const trafficFolder = "../../../../shared/data"

// TestOracleFiles replays real logs that lie beside the repository, each with
// counts made by brute force; where there are none TestOracleGenerated has
// checked the same promise.
func TestOracleFiles(t *testing.T) {
	for name, read := range map[string]func(t *testing.T, line string) event{
		"nasa_aug95_head.log":   accessLine,
		"elastic_apache.log":    accessLine,
		"nasa_jul95_persec.tsv": perSecondLine,
		"azure_llm_code.csv":    invocationLine,
		"azure_llm_conv.csv":    invocationLine,
	} {
		path := filepath.Join(trafficFolder, name+".gz")
		if _, err := os.Stat(path); err != nil {
			t.Logf("%s is not here (%v): generated traffic only", path, err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := readEvents(t, path, read)
			stem, _, _ := strings.Cut(name, ".")
			questions := readQuestions(t, filepath.Join(trafficFolder, "oracle_"+stem+".tsv"), strings.HasPrefix(stem, "azure"))
			truth := newTruth(events)
			for _, q := range questions { // the readers above agree with the oracle's
				if got := truth.count(q.key, q.at-q.w*1000, q.at); got != q.want {
					t.Fatalf("the log as read has %d hits for %+v", got, q)
				}
			}
			checkOracle(t, events, questions)
		})
	}
}

func readEvents(t *testing.T, path string, read func(*testing.T, string) event) (events []event) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		if e := read(t, lines.Text()); e.n > 0 {
			events = append(events, e)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

func readQuestions(t *testing.T, path string, milliseconds bool) (questions []question) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(row, "\t") // t, w, kind, key, count
		q := question{at: number(t, f[0]), w: number(t, f[1]), key: f[2], want: uint64(number(t, f[4]))}
		if f[2] != "all" {
			q.key += ":" + f[3]
		}
		if !milliseconds {
			q.at *= 1000
		}
		questions = append(questions, q)
	}
	return questions
}

// accessLine reads a line in Common Log Format, or one that goes on after it.
func accessLine(t *testing.T, line string) event {
	t.Helper()
	host, rest, _ := strings.Cut(line, " ")
	_, rest, _ = strings.Cut(rest, "[")
	stamp, rest, _ := strings.Cut(rest, "]")
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp)
	if err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	_, request, _ := strings.Cut(rest, `"`)
	fields := strings.Fields(request)
	e := event{at.UnixMilli(), 1, []string{"all", "host:" + host}}
	if url := "url:" + strings.TrimSuffix(fields[1], `"`); len(url) <= engine.MaxKeyBytes {
		e.keys = append(e.keys, url)
	}
	return e
}

func perSecondLine(t *testing.T, line string) event {
	t.Helper()
	second, n, _ := strings.Cut(line, "\t")
	return event{number(t, second) * 1000, uint64(number(t, n)), []string{"all"}}
}

func invocationLine(t *testing.T, line string) event {
	t.Helper()
	stamp, _, _ := strings.Cut(line, ",")
	if stamp == "TIMESTAMP" {
		return event{}
	}
	at, err := time.Parse("2006-01-02 15:04:05", stamp)
	if err != nil {
		t.Fatal(err)
	}
	return event{at.UnixMilli(), 1, []string{"all"}}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
