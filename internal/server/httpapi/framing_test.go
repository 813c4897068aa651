package httpapi

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// A request whose end two servers may see at different places is the last of its connection: nothing behind it is taken for another one.
func TestFraming(t *testing.T) {
	a := hostileAPI(t, engine.Config{}, options{})
	const hit = "POST /v1/hits HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\n"
	const behind = hit + "Content-Length: 8\r\n\r\nsmuggled"
	send := func(text string) string {
		conn, err := net.Dial("tcp", a.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answers, _ := io.ReadAll(conn) // to the end: the server closes
		return string(answers)
	}
	for name, request := range map[string]string{
		"chunked":                      hit + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" + behind,
		"chunked and a length":         hit + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" + behind,
		"a length and chunked":         hit + "Transfer-Encoding: chunked\r\nContent-Length: 11\r\n\r\n1\r\na\r\n0\r\n\r\n" + behind,
		"two lengths":                  hit + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na" + behind,
		"a list of lengths":            hit + "Content-Length: 1, 2\r\n\r\na" + behind,
		"a signed length":              hit + "Content-Length: +1\r\n\r\na" + behind,
		"chunked twice":                hit + "Transfer-Encoding: chunked, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" + behind,
		"two codings":                  hit + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n1\r\na\r\n0\r\n\r\n" + behind,
		"another coding":               hit + "Transfer-Encoding: xchunked\r\nContent-Length: 1\r\n\r\na" + behind,
		"a space before the colon":     hit + "Transfer-Encoding : chunked\r\nContent-Length: 1\r\n\r\na" + behind,
		"a folded field":               hit + "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\na" + "GARBAGE\r\n\r\n",
		"a chunk without a size":       hit + "Transfer-Encoding: chunked\r\n\r\n\r\na\r\n0\r\n\r\n" + behind,
		"a chunk with a signed size":   hit + "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n" + behind,
		"a chunk longer than its size": hit + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n" + behind,
	} {
		answers := send(request)
		if n := strings.Count(answers, "HTTP/1.1 "); n > 1 && name != "a folded field" || strings.Contains(name, "chunked") && !strings.Contains(answers, "Connection: close") {
			t.Errorf("%s: %d answers: %s", name, n, answers)
		}
	}
	if c, err := a.engine.Count("smuggled", time.Minute); err != nil || c.Upper != 0 {
		t.Errorf("%+v, %v: what stands behind a request was counted", c, err)
	}
	two := send(hit + "Content-Length: 5\r\n\r\nfirst" + hit + "Content-Length: 6\r\nConnection: close\r\n\r\nsecond")
	if strings.Count(two, "HTTP/1.1 200 OK") != 2 {
		t.Errorf("two requests: %s", two)
	}
}
