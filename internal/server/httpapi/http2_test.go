package httpapi

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Requests of one connection of HTTP/2 are answered, more than it may have at once too, and a body that doesn't
// arrive ends its own request alone.
func TestHTTP2(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0", ReadTimeout: time.Second}})
	addr, _ := a.run()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	client := http.Client{Transport: transport}
	ask := func(method, path string, body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, body)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "text/plain")
		return client.Do(r)
	}

	view, err := ask("GET", "/v1/views/overview", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Body.Close()
	if view.ProtoMajor != 2 || view.StatusCode != http.StatusOK {
		t.Fatal(view.Proto, view.Status)
	}
	stuck, write := io.Pipe()
	defer write.Close()
	late := make(chan int, 1)
	go func() {
		status := 0
		if r, err := ask("POST", "/v1/hits", stuck); err == nil {
			status = r.StatusCode
			r.Body.Close()
		}
		late <- status
	}()

	var all sync.WaitGroup
	for range 3 * maxStreams {
		all.Go(func() {
			r, err := ask("POST", "/v1/hits", strings.NewReader("a\n"))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
		})
	}
	all.Wait()
	if hits := a.engine.Stats().Hits; hits != 3*maxStreams {
		t.Errorf("%d hits were counted", hits)
	}
	if status := <-late; status == http.StatusOK {
		t.Error("a request whose body did not arrive was answered with 200")
	}
	if open := a.server.address.Listener().Count().Open; open >= 10 {
		t.Errorf("%d connections are open: requests don't share them", open)
	}
}
