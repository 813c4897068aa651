package client

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A node takes a batch over a connection that was used before, and dies before it answers: the
// transport tries again by itself and finds nobody. The batch may have counted there, and is not
// sent to another node.
func TestABatchThatMayHaveCountedStays(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]http.RoundTripper{
		"watched": &http.Transport{},
		"wrapped": wrapped{&http.Transport{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			took := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					in := bufio.NewReader(conn)
					if err = readRequest(in); err == nil {
						_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
					}
					if err == nil {
						err = readRequest(in)
					}
					l.Close()
					conn.Close()
				}
				took <- err
			}()
			c, err := New(l.Addr().String(), Options{HTTPClient: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			batch := request{method: http.MethodPost, path: "/v1/hits", body: []byte("a 1\n"), contentType: "text/plain", idempotencyKey: "k"}
			if _, err := c.send(ctx, 0, batch); err != nil {
				t.Fatal(err)
			}
			_, err = c.send(ctx, 0, batch)
			if err := <-took; err != nil {
				t.Fatal(err)
			}
			if err == nil || neverSent(err) || !mayHaveCounted(err) {
				t.Errorf("a batch that the node has read: %v, never sent: %v", err, neverSent(err))
			}
		})
	}
}

type wrapped struct{ http.RoundTripper }

func readRequest(in *bufio.Reader) error {
	r, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err
}
