package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// asked is what one request may need, and the reservation of it.
type asked struct {
	t            *Transport
	price        Price
	priced       bool
	prompt, most uint64 // tokens of the prompt, estimated, and of the answer at most
	unpriced     string // the model, if prices lack it
	id, key      string
	once         sync.Once
}

// bytesPerToken is how many bytes of a request's JSON a token has at least, on average: English has about four, and other languages
// and code less. The estimate only says what is reserved; the provider's usage is what counts.
const bytesPerToken = 3

const (
	mostTokens  = 1 << 32 // of an answer: more is not believed
	mostAnswers = 1 << 8  // of one request
)

// ask reads what a request may need. A streamed chat is asked to report its usage; then the body changes.
func (t *Transport) ask(path string, body []byte) (*asked, []byte) {
	var q struct {
		Model               string  `json:"model"`
		MaxTokens           *uint64 `json:"max_tokens"`
		MaxCompletionTokens *uint64 `json:"max_completion_tokens"`
		MaxOutputTokens     *uint64 `json:"max_output_tokens"`
		N                   uint64  `json:"n"`
		Stream              bool    `json:"stream"`
	}
	_ = json.Unmarshal(body, &q) // the provider says what is wrong with it
	a := &asked{t: t, prompt: uint64(len(body))/bytesPerToken + 1, most: t.cfg.MaxTokens}
	for _, n := range []*uint64{q.MaxTokens, q.MaxCompletionTokens, q.MaxOutputTokens} {
		if n != nil {
			a.most = *n
		}
	}
	a.most = min(a.most, mostTokens) * min(max(q.N, 1), mostAnswers)
	if strings.HasSuffix(path, "/embeddings") {
		a.most = 0
	}
	if a.price, a.priced = t.cfg.Prices[q.Model]; !a.priced {
		a.price, a.priced = t.cfg.Prices["*"]
	}
	if !a.priced && t.cfg.Prices != nil {
		a.unpriced = cmp.Or(q.Model, "of no name")
	}
	if q.Stream && strings.HasSuffix(path, "/completions") {
		body = withUsage(body)
	}
	return a, body
}

// withUsage has a streamed chat end with an event that reports its usage.
func withUsage(body []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return body
	}
	options := map[string]any{}
	_ = json.Unmarshal(members["stream_options"], &options) // absent: none
	options["include_usage"] = true
	var err error
	if members["stream_options"], err = json.Marshal(options); err != nil {
		return body
	}
	made, err := json.Marshal(members)
	if err != nil {
		return body
	}
	return made
}

// costs are those of some tokens.
func (a *asked) costs(input, output uint64) map[string]uint64 {
	c := map[string]uint64{"requests": 1, "tokens": input + output}
	if a.priced {
		c["microusd"] = a.price.microUSD(input, output)
	}
	return c
}

// settle ends the reservation, once. It goes on if the client has left.
func (a *asked) settle(input, output uint64) {
	a.once.Do(func() {
		if a.id == "" { // no limit is for the key
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), a.t.cfg.SettleTimeout)
		defer cancel()
		if _, err := a.t.cfg.Budget.SettleCosts(ctx, a.id, a.costs(input, output), true); err != nil {
			a.t.cfg.Logger.Warn("llm: a reservation could not be settled: all of it stays used", "key", a.key, "id", a.id, "error", err)
		}
	})
}

// meter reads the usage of an answer as it passes, and settles when it ends or is closed.
type meter struct {
	of     io.ReadCloser
	asked  *asked
	stream bool

	mu     sync.Mutex // Close may come while another goroutine reads
	kept   []byte     // an answer that is not streamed, or the line of a stream that is not whole
	events uint64     // of a stream, with something of the answer: about a token each
	usage  *usage
	over   bool // longer than maxBody: kept is not whole
}

// usage is what providers report, in both spellings.
type usage struct {
	PromptTokens     uint64 `json:"prompt_tokens"`
	CompletionTokens uint64 `json:"completion_tokens"`
	InputTokens      uint64 `json:"input_tokens"`
	OutputTokens     uint64 `json:"output_tokens"`
	TotalTokens      uint64 `json:"total_tokens"`
}

func (u *usage) tokens() (input, output uint64) {
	input, output = max(u.PromptTokens, u.InputTokens), max(u.CompletionTokens, u.OutputTokens)
	if u.TotalTokens > input+output { // reasoning that is in the sum alone
		output = u.TotalTokens - input
	}
	return input, output
}

// reported is an answer, or an event of one.
type reported struct {
	Usage    *usage `json:"usage"`
	Response struct {
		Usage *usage `json:"usage"`
	} `json:"response"` // of the events of the responses API
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.of.Read(b)
	m.mu.Lock()
	m.note(b[:n])
	m.mu.Unlock()
	if err != nil {
		m.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer. An answer that was not read to its end was cut.
func (m *meter) Close() error {
	err := m.of.Close()
	m.end(false)
	return err
}

// note keeps what is needed of some bytes of the answer. The caller holds m.mu.
func (m *meter) note(b []byte) {
	if len(m.kept)+len(b) > maxBody {
		m.over, m.kept = true, nil
	}
	m.kept = append(m.kept, b...)
	if !m.stream {
		return
	}
	for {
		line, rest, whole := bytes.Cut(m.kept, []byte("\n"))
		if !whole {
			return
		}
		m.kept = rest
		if data, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); is {
			m.event(bytes.TrimSpace(data))
		}
	}
}

func (m *meter) event(data []byte) {
	if len(data) == 0 || data[0] != '{' {
		return
	}
	m.events++
	if bytes.Contains(data, []byte(`"usage"`)) {
		m.report(data)
	}
}

func (m *meter) report(data []byte) {
	var r reported
	if json.Unmarshal(data, &r) != nil {
		return
	}
	if r.Usage == nil {
		r.Usage = r.Response.Usage
	}
	if r.Usage != nil {
		m.usage = r.Usage
	}
}

// end settles: by the usage that was reported, or of a cut stream by what came of it. A whole answer without usage used
// all that was reserved.
func (m *meter) end(whole bool) {
	m.mu.Lock()
	if !m.stream && m.usage == nil && !m.over {
		m.report(m.kept)
	}
	m.kept = nil
	input, output := m.asked.prompt, m.asked.most
	switch {
	case m.usage != nil:
		input, output = m.usage.tokens()
	case !whole && m.stream:
		output = min(m.events, m.asked.most)
	}
	m.mu.Unlock()
	m.asked.settle(input, output)
}
