package server

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/cespare/xxhash/v2"

	"github.com/weir-counter/weir/api"
)

// maxReceiptBytes bounds an answer that is kept for repeats, in bytes of JSON.
const maxReceiptBytes = 8 << 10

// once counts a body under an idempotency key: a repeat counts nothing and gets
// the first answer. The body is read before anything is counted, because while
// hits of such a request are counted the journal waits, and it must not wait
// for a network.
func (in *ingest) once(r *http.Request, key string) (p *problem, repeated bool) {
	f, whole, release, p := in.open(r)
	defer release()
	if p != nil {
		return p, false
	}
	kept, repeated, err := in.server.engine.OnceFrom(r.Context(), clientOf(r).String(), key, fingerprint(f, whole), func() []byte {
		if p = in.parse(f, r.Header.Get("Content-Type"), bytes.NewReader(whole)); in.answer.Counted == 0 {
			return nil // so that it may be sent again
		}
		return in.receipt(p)
	})
	switch {
	case err != nil:
		return asProblem(err), false
	case repeated:
		return in.recall(kept), true
	}
	return p, false
}

// fingerprint tells bodies under the same key apart. It is kept on disk: the
// same body must have the same one in every build.
func fingerprint(f format, body []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write([]byte{byte(f)}) // a hash takes everything
	_, _ = d.Write(body)
	return d.Sum64()
}

// receipt is the answer as repeats get it: its JSON. So that it is small, fewer
// of the rejected lines are listed if they are long ones, in the first answer
// too.
func (in *ingest) receipt(p *problem) []byte {
	for {
		var answer any = &in.answer.HitsAnswer
		if p != nil {
			answer = p
		}
		b, err := json.Marshal(answer)
		if err != nil {
			panic(err) // strings and numbers only
		}
		if len(b) <= maxReceiptBytes || len(in.answer.Rejected) == 0 {
			return b
		}
		in.answer.Rejected = in.answer.Rejected[:len(in.answer.Rejected)/2]
	}
}

// recall is the inverse of receipt.
func (in *ingest) recall(kept []byte) *problem {
	p := problem{api.Problem{HitsAnswer: &in.answer.HitsAnswer}}
	if err := json.Unmarshal(kept, &p); err != nil {
		in.server.log.Error("could not read the stored answer of an idempotent request", "error", err)
		return asProblem(err)
	}
	if p.Status == 0 {
		return nil // it was a success
	}
	return &p
}
