#!/bin/sh
# Builds the site of the documentation in bin/site: docs/ as pages, and the reference of the HTTP API from a
# server that runs meanwhile. usage: tools/docs.sh WEIR
set -e
cd "$(dirname "$0")/.."
(cd docs/.vitepress && npx vitepress build ..)
out=$(mktemp)
"$1" serve --ephemeral --http 127.0.0.1:0 >"$out" 2>&1 &
server=$!
trap 'kill $server; rm -f "$out"' EXIT
page=internal/server/httpapi/docs
tries=0
until addr=$(sed -n 's/.*msg=serving addr=\([^ ]*\).*/\1/p' "$out") && [ -n "$addr" ] && curl -sf "http://$addr/openapi.json" >bin/site/openapi.json; do
  tries=$((tries + 1))
  [ "$tries" -lt 120 ] || break
  sleep 0.5
done
[ -s bin/site/openapi.json ] || { echo "tools/docs.sh: the server does not answer:" >&2; cat "$out" >&2; exit 1; }
mkdir -p bin/site/docs
cp "$page/index.html" bin/site/api.html
cp "$page/page.js" "$page/page.css" bin/site/docs/
mkdir -p bin/site/web && cp web/dist/icon.svg bin/site/web/
cp -r docs/pictures bin/site/
echo "built bin/site: $(find bin/site -name '*.html' | wc -l) pages"
