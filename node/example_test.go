package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/node"
)

// A program that has a whole Weir within: it counts by itself, other programs hit and ask over
// HTTP, and what was counted is there when it is started again.
func Example() {
	dir, err := os.MkdirTemp("", "weir-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	var cfg node.Config
	cfg.Engine.Memory, cfg.Engine.LimitMemory = 32<<20, 8<<20
	cfg.Journal.Dir, cfg.Journal.MaxBytes = dir, 256<<20
	cfg.HTTP.Addr = "127.0.0.1:0" // any free port
	cfg.Logger = slog.New(slog.DiscardHandler)
	for range 2 {
		n, err := node.Start(ctx, cfg)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := n.Engine().Hit("url:/home"); err != nil {
			fmt.Println(err)
		}
		c, err := client.New("http://"+n.Addr(), client.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		counts, err := c.Count(ctx, client.CountQuery{Keys: []string{"url:/home"}, Windows: []time.Duration{time.Hour}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(counts[0].Bounds)
		if err := n.Close(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 1
	// 2
}
