package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/node"
)

// A program counts what happens, and asks.
func ExampleSender() {
	server, err := node.Start(context.Background(), exampleConfig())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())

	c, err := client.New("http://"+server.Addr(), client.Options{}) // several nodes: "http://a:8080,http://b:8080"
	if err != nil {
		log.Fatal(err)
	}
	hits, err := client.NewSender(c, client.SenderOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for range 1000 {
		if err := hits.Hit("url:/home"); err != nil { // no request is made
			log.Print(err)
		}
	}
	if err := hits.Close(context.Background()); err != nil { // sends what is left
		log.Print(err)
	}

	counts, err := c.Count(context.Background(), client.CountQuery{Keys: []string{"url:/home"}})
	if err != nil {
		log.Fatal(err)
	}
	d, err := c.Allow(context.Background(), client.Check{Key: "signin:bob", Limit: "signin", Inline: &client.Limit{N: 5, Per: time.Minute}})
	var nobody *client.NoDecisionError
	switch {
	case errors.As(err, &nobody):
		fmt.Println(counts[0].Estimate, "nobody decided: let pass, or deny, by your choice")
	case err != nil:
		log.Fatal(err) // the request is wrong, or the token
	default:
		fmt.Println(counts[0].Estimate, d.Allowed)
	}
	// Output: 1000 true
}

func exampleConfig() (cfg node.Config) {
	cfg.Ephemeral, cfg.HTTP.Addr = true, "127.0.0.1:0"
	return cfg
}
