package main

import (
	"context"
	"testing"
	"time"

	"github.com/weir-counter/weir/node"
)

// TestTheMostOfASecond counts admissions around the edges of seconds.
func TestTheMostOfASecond(t *testing.T) {
	a := &admissions{}
	for _, ms := range []int64{0, 400, 999, 1000, 1399, 1400, 1401} {
		a.at[a.n.Add(1)-1].Store(ms * int64(time.Millisecond))
	}
	if most := a.most(); most != 5 {
		t.Errorf("most in a second is %d, want 5: those of 400 to 1399 ms, or later", most)
	}
}

// TestAnswersOfGubernator reads the status and the error of an answer.
func TestAnswersOfGubernator(t *testing.T) {
	for _, c := range []struct {
		answer []byte
		over   bool
		fails  bool
	}{
		{[]byte{0x0a, 2, 0x10, 5}, false, false},
		{[]byte{0x0a, 4, 0x08, 1, 0x10, 5}, true, false},
		{[]byte{0x0a, 3, 0x2a, 1, 'x'}, false, true},
		{nil, false, true},
	} {
		over, err := gubernatorOver(c.answer)
		if over != c.over || (err != nil) != c.fails {
			t.Errorf("%x: over %v, error %v", c.answer, over, err)
		}
	}
}

// TestWeirIsAsked asks a server as the benchmark does, over RESP and HTTP: two of three pass.
func TestWeirIsAsked(t *testing.T) {
	ctx := t.Context()
	cfg := node.Config{Ephemeral: true}
	cfg.HTTP.Addr, cfg.RESP.Addr = "127.0.0.1:0", "127.0.0.1:0"
	n, err := node.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.WithoutCancel(ctx))
	for name, at := range map[string]struct {
		dial    func(context.Context, string) (asker, error)
		address string
	}{"resp": {dialRESP(askWeir), n.RESPAddr()}, "http": {dialHTTP, n.Addr()}} {
		a, err := at.dial(ctx, at.address)
		if err != nil {
			t.Fatal(err)
		}
		k := key{"test", name, 2, 60_000}
		if allowed, err := a.ask(ctx, k, k, k); err != nil || allowed != 2 {
			t.Errorf("%s: %d allowed, %v", name, allowed, err)
		}
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}
}
