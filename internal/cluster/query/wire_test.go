package query

import (
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// someSet is a set of some of parts partitions.
func someSet() replication.PartitionSet {
	s := replication.NewPartitionSet(parts)
	s.Add(1)
	s.Add(parts - 1)
	return s
}

func sampleQuestions() [classes][]question {
	return [classes][]question{
		quick: {
			{kind: count, key: "url:/home", at: time.Unix(epoch, 5), window: time.Minute, upTo: 1 << 40},
			{kind: count, key: engine.AllKeys, at: time.Unix(-5, 0), window: engine.MaxWindow, in: someSet(), upTo: 9},
			{kind: deletion, key: "k", at: time.Unix(0, 0), until: 1_700_000_000_000},
		},
		scan: {
			{kind: series, key: "k", from: epoch - 60, at: time.Unix(epoch, 0), window: 10 * time.Second},
			{kind: series, key: engine.AllKeys, from: epoch - 2, at: time.Unix(epoch, 0), window: time.Second, in: someSet()},
			{kind: top, key: "u", at: time.Unix(epoch, 0), window: time.Hour, n: 3, in: someSet()},
			{kind: keys, key: "u", after: "ua", at: time.Unix(0, 0), n: 3, in: someSet()},
		},
	}
}

func sampleRequest(c class, questions []question) []byte {
	b := appendRequest(nil, c, parts, time.Second, len(questions))
	for i := range questions {
		b = wire.AppendText(b, string(questions[i].append(nil)))
	}
	return b
}

func TestRequestIsReadAsWritten(t *testing.T) {
	for c, all := range sampleQuestions() {
		for questions := range slices.Chunk(all, maxScans) {
			wantRead(t, class(c), questions)
		}
	}
}

func wantRead(t *testing.T, c class, questions []question) {
	t.Helper()
	b := sampleRequest(c, questions)
	req, err := readRequest(b, parts)
	if err != nil || req.class != c || req.ttl != time.Second || !reflect.DeepEqual(req.questions, questions) {
		t.Errorf("class %d: %v, %+v, want %+v", c, err, req, questions)
	}
	for cut := range b {
		if _, err := readRequest(b[:cut], parts); err == nil {
			t.Errorf("class %d: %d of %d bytes are a request", c, cut, len(b))
		}
	}
	if _, err := readRequest(append(slices.Clone(b), 0), parts); err == nil {
		t.Error("a byte more is a request")
	}
	if _, err := readRequest(b, 2*parts); err == nil {
		t.Error("a request to an engine with other partitions is taken")
	}
}

// Questions and answers have a version that others refuse: a change of their layout is a
// change of the number, and of these sums.
func TestALayoutHasItsVersion(t *testing.T) {
	sum := crc32.NewIEEE()
	for c, all := range sampleQuestions() {
		for questions := range slices.Chunk(all, maxScans) {
			sum.Write(sampleRequest(class(c), questions))
		}
	}
	sum.Write(appendPart(nil, statusAnswers, 0, true))
	sum.Write(sampleText())
	if got, want := sum.Sum32(), uint32(0xda7532a8); wireVersion != 3 || got != want {
		t.Errorf("version %d has the sum %#x, version 3 has %#x: raise wireVersion with each change, and set both here", wireVersion, got, want)
	}
	b := sampleRequest(quick, sampleQuestions()[quick][:1])
	for _, version := range []byte{wireVersion - 1, wireVersion + 1} {
		b[0] = version
		if _, err := readRequest(b, parts); err == nil || !strings.Contains(err.Error(), "run the same version") {
			t.Errorf("a request of version %d: %v", version, err)
		}
		if _, err := readPart([]byte{version, statusAnswers, 0, 1}); !errors.Is(err, errVersion) {
			t.Errorf("answers of version %d: %v", version, err)
		}
	}
}

func sampleAnswers() ([]*question, []answer) {
	c := engine.Count{Lower: 3, Estimate: 5, Upper: 5 << 60}
	quick, scan := sampleQuestions()[0], sampleQuestions()[1]
	return []*question{&quick[0], &quick[1], &quick[2], &scan[0], &scan[2], &scan[3], &quick[0], &quick[0], &scan[2]}, []answer{
		{result: result{{Count: c}}}, {result: result{{}}}, {result: result{{Key: "k"}}}, {result: result{{Count: c}, {Count: c}, {}, {}, {}, {}}},
		{result: result{{Key: "u1", Count: c}, {Key: "u2"}}}, {result: result{{Key: "ub"}, {Key: "uc"}}},
		{err: &engine.Error{Code: api.CodeInvalidRange, Field: "n", Message: "why"}}, {err: errMoved}, {err: errMoved, held: someSet()},
	}
}

func sampleText() []byte {
	questions, answers := sampleAnswers()
	text := appendFresh(nil, api.Freshness{AsOf: api.Time{Time: time.UnixMilli(7)}, Late: []api.Late{{Node: "a", Since: api.Time{Time: time.UnixMilli(-1)}}}})
	text = append(text, byte(len(questions)))
	for i := range answers {
		text = answers[i].append(text)
	}
	return text
}

func TestAnswersAreReadAsWritten(t *testing.T) {
	questions, want := sampleAnswers()
	text := sampleText()
	got, fresh, err := readAnswers(text, questions, parts)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v, want %+v", err, got, want)
	}
	if !fresh.AsOf.Equal(time.UnixMilli(7)) || len(fresh.Late) != 1 || fresh.Late[0].Node != "a" || !fresh.Late[0].Since.Equal(time.UnixMilli(-1)) {
		t.Errorf("%+v", fresh)
	}
	for cut := range text {
		if _, _, err := readAnswers(text[:cut], questions, parts); err == nil {
			t.Errorf("%d of %d bytes are answers", cut, len(text))
		}
	}
	if _, _, err := readAnswers(text, questions[1:], parts); err == nil {
		t.Error("answers to other questions are taken")
	}
}

func FuzzRequest(f *testing.F) {
	for c, all := range sampleQuestions() {
		for questions := range slices.Chunk(all, maxScans) {
			f.Add(sampleRequest(class(c), questions))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := readRequest(b, parts)
		if err != nil {
			return
		}
		again := appendRequest(nil, req.class, parts, req.ttl, len(req.questions))
		for i := range req.questions {
			again = wire.AppendText(again, string(req.questions[i].append(nil)))
		}
		if same, err := readRequest(again, parts); err != nil || !reflect.DeepEqual(same, req) {
			t.Errorf("%v: %+v is read back as %+v", err, req, same)
		}
		e, err := engine.New(engine.Config{Partitions: parts})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for i := range req.questions {
			answerOf(e, &req.questions[i])
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add(sampleText())
	questions, _ := sampleAnswers()
	f.Fuzz(func(t *testing.T, b []byte) {
		if answers, _, err := readAnswers(b, questions, parts); err == nil {
			for i, a := range answers {
				for _, c := range a.result {
					if c.Lower > c.Upper {
						t.Errorf("number %d: %v", i, c)
					}
				}
			}
		}
		if p, err := readPart(b); err == nil && len(p.bytes) > len(b) {
			t.Error("a part is more than its message")
		}
	})
}
