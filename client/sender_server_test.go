package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

func newSender(t *testing.T, addresses string, o client.Options, so client.SenderOptions) *client.Sender {
	t.Helper()
	c, err := client.New(addresses, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.NewSender(c, so)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeSender(t *testing.T, s *client.Sender) client.SenderStats {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	return s.Stats()
}

// losing loses every third answer of a server on the way.
type losing struct {
	http.RoundTripper
	requests atomic.Int64
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if l.requests.Add(1)%3 == 0 && err == nil {
		answer.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return answer, err
}

// Of two real servers that know nothing of each other, and whose answers are lost, none counts what the other does.
func TestSenderRealServers(t *testing.T) {
	t.Parallel()
	a, b := nodetest.Start(t, nil), nodetest.Start(t, nil)
	network := &losing{RoundTripper: &http.Transport{}}
	s := newSender(t, a.Addr()+","+b.Addr(), client.Options{HTTPClient: &http.Client{Transport: network}, MinPause: time.Millisecond, Compression: client.Gzip},
		client.SenderOptions{Every: time.Millisecond})
	const hits = 5000
	for i := range hits {
		if err := s.Hit("k" + strconv.Itoa(i%10)); err != nil {
			t.Fatal(err)
		}
		if i%500 == 499 {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	st := closeSender(t, s)
	if counted := a.Engine().Stats().Hits + b.Engine().Stats().Hits; counted != hits || st.Counted != hits || st.Repeated == 0 {
		t.Errorf("%d counted, %+v", counted, st)
	}
}

// A server that is restarted, again and again, has every hit once.
func TestSenderServerRestarts(t *testing.T) {
	t.Parallel()
	cfg := node.Config{}
	cfg.Journal.Dir = t.TempDir()
	cfg.HTTP.Addr = "127.0.0.1:0"
	n := nodetest.Open(t, cfg)
	cfg.HTTP.Addr = n.Addr()
	s := newSender(t, n.Addr(), client.Options{Durable: true, MinPause: 5 * time.Millisecond, MaxPause: 50 * time.Millisecond}, client.SenderOptions{Every: time.Millisecond})
	hits := 0
	for range 2 {
		closing := make(chan struct{})
		go func() {
			nodetest.Close(t, n)
			close(closing)
		}()
		for running := true; running; hits++ {
			select {
			case <-closing:
				running = false
			default:
			}
			if err := s.Hit("k" + strconv.Itoa(hits%100)); err != nil {
				t.Fatal(err)
			}
		}
		n = nodetest.Open(t, cfg)
	}
	st := closeSender(t, s)
	if counted := n.Engine().Stats().Hits; counted != uint64(hits) || st.Counted != uint64(hits) {
		t.Errorf("%d hits, %d counted, %+v", hits, counted, st)
	}
}

// A sender proves who it is by a certificate, and waits while the server does not know it.
func TestSenderCertificate(t *testing.T) {
	t.Parallel()
	ca := testsupport.NewAuthority(t)
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	const identities = `{identities: [{name: shop, permissions: [{role: ingest, keys: ["shop:"]}], certificates: ["dns:shop.internal"]}]}`
	if err := os.WriteFile(tokens, []byte(identities), 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) {
		cert, key := ca.Server()
		cfg.TLS = node.TLS{Cert: cert, Key: key, ClientCA: ca.File()}
		cfg.Tokens.File = tokens
	})
	tell := make(chan error, 100)
	s := newSender(t, "https://"+n.Addr(), client.Options{TLS: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Client("shop.internal")}}}, client.SenderOptions{Notify: func(err error) { tell <- err }})
	if err := errors.Join(s.HitN("shop:cart", 3), s.HitN("bank:vault", 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Counted != 3 || st.Rejected != 2 || n.Engine().Stats().Hits != 3 {
		t.Errorf("%+v; %v", st, <-tell)
	}
	if err := s.Close(t.Context()); err == nil {
		t.Error("nothing is said of the hits that were rejected")
	}
	stranger := newSender(t, "https://"+n.Addr(), client.Options{TLS: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Client("nobody.internal")}}}, client.SenderOptions{Notify: func(err error) { tell <- err }})
	for len(tell) > 0 {
		<-tell
	}
	if err := stranger.Hit("shop:cart"); err != nil {
		t.Fatal(err)
	}
	if err := <-tell; err == nil {
		t.Error("nobody learns of it")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stranger.Close(gone); err == nil || stranger.Stats().Waiting != 1 || n.Engine().Stats().Hits != 3 {
		t.Errorf("%v, %+v", err, stranger.Stats())
	}
}

// A node that is down is passed over: by questions, by decisions, by batches.
func TestNodesFailOver(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nil)
	c, err := client.New("127.0.0.1:1, "+n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit := client.Check{Key: "a", Limit: "own", Inline: &client.Limit{N: 1, Per: time.Minute}}
	if d, err := c.Allow(t.Context(), limit); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := c.Allow(t.Context(), limit); err != nil || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if r, err := c.Send(t.Context(), []client.Hit{{Key: "b"}}); err != nil || r.Counted != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if counts, err := c.Count(t.Context(), client.CountQuery{Keys: []string{"b"}}); err != nil || counts[0].Estimate != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// What a Sender refuses is what a server would.
func TestSenderKnowsTheServersBounds(t *testing.T) {
	if client.MaxSumKeyBytes != weir.MaxKeyBytes || client.MaxHits != weir.MaxHits {
		t.Error("other bounds than the engine's")
	}
}
