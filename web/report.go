package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"time"
)

// Report writes one page that needs no server: a report of weir replay ("replay") or weir limits replay
// ("limits") with the charts of the dashboard. It loads nothing, and runs no script but its own.
func Report(w io.Writer, kind, version string, made time.Time, report any) error {
	data, err := json.Marshal(map[string]any{"kind": kind, "made": made.Unix(), "version": version, "report": report}) // with < and > escaped
	if err != nil {
		return err
	}
	style, err := dist.ReadFile("dist/app.css")
	if err != nil {
		panic(err) // it is embedded
	}
	script, err := dist.ReadFile("dist/report.js")
	if err != nil {
		panic(err) // it is embedded
	}
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", sum(script), sum(style))
	var page bytes.Buffer
	fmt.Fprintf(&page, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>Weir report</title>
<style>%s</style>
</head>
<body>
<noscript>This report needs JavaScript. weir replay without --html prints it as text.</noscript>
<script type="application/json" id="report">%s</script>
<script>%s</script>
</body>
</html>
`, html.EscapeString(policy), style, data, script)
	_, err = w.Write(page.Bytes())
	return err
}

// sum names a script or style in a Content-Security-Policy.
func sum(of []byte) string {
	is := sha256.Sum256(of)
	return "sha256-" + base64.StdEncoding.EncodeToString(is[:])
}
