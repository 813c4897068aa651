package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
)

// asked is what one request may need, and its reservation.
type asked struct {
	t            *Transport
	price        Price
	priced       bool
	prompt, most uint64 // tokens of the prompt, estimated, and of the answer at most
	unseen       uint64 // tokens of an answer that a client who leaves before it begins may be billed for
	unpriced     string // the model, if prices lack it
	id, key      string
	once         sync.Once
}

// bytesPerToken is how many bytes of a request's JSON a token has at least, on average. English has about four; other
// languages and code have fewer. The estimate only says what is reserved; the provider's usage is what counts.
const bytesPerToken = 3

const (
	mostTokens  = 1 << 32 // of an answer: more is not believed
	mostAnswers = 1 << 8  // of one request
)

// ask reads what a request may need. A streamed chat is asked to report its usage; then the body changes. Names count as they are
// written, since providers tell cases apart. What can't be read is an error: it would reserve too little.
func (t *Transport) ask(path string, body []byte) (*asked, []byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, nil, errors.New("the body is no JSON object: " + err.Error())
	}
	var model string
	var stream bool
	answers := uint64(1)
	var most [3]uint64
	for name, to := range map[string]any{
		"model": &model, "stream": &stream, "n": &answers, "max_tokens": &most[0], "max_completion_tokens": &most[1], "max_output_tokens": &most[2],
	} {
		if text := members[name]; text != nil {
			if err := json.Unmarshal(text, to); err != nil {
				return nil, nil, errors.New(name + " of " + string(text[:min(len(text), 64)]) + " can't be read: numbers are whole, from 0, without quotes or exponents")
			}
		}
	}
	a := &asked{t: t, prompt: uint64(len(body))/bytesPerToken + 1, most: cmp.Or(max(most[0], most[1], most[2]), t.cfg.MaxTokens)}
	a.most = min(a.most, mostTokens) * min(max(answers, 1), mostAnswers)
	if strings.HasSuffix(path, "/embeddings") {
		a.most = 0
	}
	if !stream {
		a.unseen = a.most
	}
	if a.price, a.priced = t.cfg.Prices[model]; !a.priced {
		a.price, a.priced = t.cfg.Prices["*"]
	}
	if !a.priced && t.cfg.Prices != nil {
		a.unpriced = cmp.Or(model, "of no name")
	}
	if stream && strings.HasSuffix(path, "/completions") {
		body = withUsage(members, body)
	}
	return a, body, nil
}

// withUsage has a streamed chat end with an event that reports its usage.
func withUsage(members map[string]json.RawMessage, body []byte) []byte {
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

// costs returns the costs of some tokens.
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
	body   io.ReadCloser
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
	n, err := m.body.Read(b)
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
	err := m.body.Close()
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

// end settles by the usage that was reported, or for a cut stream by what came of it. A whole answer without usage used
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
		output = m.events
	}
	m.mu.Unlock()
	m.asked.settle(input, output)
}
