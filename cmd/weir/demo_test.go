package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The demonstration has traffic at once, and refuses what it would mix it with.
func TestDemo(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--demo", "--ephemeral")
	for path, want := range map[string]string{
		"/v1/views/overview?window=1d":     `"key":"country:de"`,
		"/v1/views/limits?name=client":     `"name":"client"`,
		"/v1/count?key=url:/&window=1d":    `"exact":`,
		"/v1/count?key=limit:login:denied": `"estimate":`,
	} {
		r, err := http.Get("http://" + server + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v %s", path, err, body)
		}
	}
	for _, with := range []string{"--data=x", "--policy=x", "--tokens=x", "--cluster=x", "--clock=event"} {
		if code, _, stderr := weirOf(t, nil, "", "serve", "--demo", with); code != exitUsage || !strings.Contains(stderr, "the demo is") {
			t.Errorf("%s: exit %d: %s", with, code, stderr)
		}
	}
}
