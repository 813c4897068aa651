// Command llmproxy is a proxy in front of an OpenAI-compatible API that keeps budgets at a Weir server:
//
//	weir serve --policy budgets.yaml
//	cd bench && go run ./llmproxy -upstream https://api.openai.com -key-header X-Team
//
// Clients send requests to http://127.0.0.1:8090/v1/... as they do to the API, with the name of their team in X-Team.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/middleware/llm"
)

func main() {
	if err := run(); err != nil {
		log.Fatal("llmproxy: ", err)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8090", "address to serve")
	upstream := flag.String("upstream", "", "URL of the API, such as https://api.openai.com")
	server := flag.String("weir", "http://127.0.0.1:8080", "comma-separated list of the addresses of Weir's nodes")
	token := flag.String("token", os.Getenv("WEIR_TOKEN"), "token for Weir")
	header := flag.String("key-header", "X-Team", "header that names who is limited; its value follows -key-prefix")
	prefix := flag.String("key-prefix", "team:", "what the key begins with")
	prices := flag.String("prices", "", `file of prices in dollars per million tokens: {"MODEL": {"input": 2.5, "output": 10}, "*": ...}`)
	failOpen := flag.Bool("fail-open", false, "let requests pass while Weir can't be asked")
	flag.Parse()
	to, err := url.Parse(*upstream)
	if err != nil || to.Host == "" {
		return fmt.Errorf("-upstream %q: must be a URL such as https://api.openai.com", *upstream)
	}
	c, err := client.New(*server, client.Options{Token: *token, Timeout: 5 * time.Second, Retries: 1})
	if err != nil {
		return err
	}
	cfg := llm.Config{Budget: c, FailOpen: *failOpen, Key: func(r *http.Request) (string, error) {
		if name := r.Header.Get(*header); name != "" {
			return *prefix + name, nil
		}
		return "", errors.New("the header " + *header + " is missing")
	}}
	if *prices != "" {
		text, err := os.ReadFile(*prices)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &cfg.Prices); err != nil {
			return fmt.Errorf("%s: %w", *prices, err)
		}
	}
	t, err := llm.New(cfg)
	if err != nil {
		return err
	}
	log.Printf("serving http://%s for %s", *listen, to)
	return (&http.Server{Addr: *listen, Handler: t.Proxy(to), ReadHeaderTimeout: 10 * time.Second}).ListenAndServe()
}
