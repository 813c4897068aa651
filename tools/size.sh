#!/bin/sh
# Prints the size of the production code (no tests, no bench, no generated files) as a table. It includes test
# support: packages whose files import "testing", or whose names end in "test".
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files '*.go' | grep -vE '(_test\.go|\.pb\.go|_gen\.go)$' | grep -vE '^bench/|/testdata/')
support=$({ printf '%s\n' "$files" | xargs grep -lE '^(import )?	?"testing"$' | xargs -n 1 dirname; printf '%s\n' "$files" | grep -oE '^.*test/' | sed 's:/$::'; } | sort -u)
support=$(printf '%s\n' "$files" | grep -E "^($(printf '%s\n' "$support" | paste -sd '|'))/")
count() { printf '%s\n' "$1" | grep -c . || true; }
lines=$(printf '%s\n' "$files" | xargs cat | wc -l)
sizes=$(printf '%s\n' "$files" | xargs wc -l | awk '$2 != "total" { print $1 }' | sort -n)
packages=$(printf '%s\n' "$files" | xargs wc -l | awk '$2 != "total" {
  if (!sub("/[^/]*$", "", $2)) { $2 = "." }
  files[$2]++; lines[$2] += $1
} END { for (p in files) { print files[p], lines[p] } }')
help=$(go run ./cmd/weir serve --help-all)
header=$(printf '%s\n' "$files" | xargs awk '
  FNR == 1 { in_import = 0; head = 1 }
  head && /^package / { n++; next }
  head && /^import \(/ { in_import = 1; n++; next }
  head && /^import / { n++; next }
  in_import { n++; if (/^\)/) { in_import = 0 } ; next }
  head && /^$/ { n++; next }
  head && !/^\/\// { head = 0 }
  END { print n }')
echo "| measure (production Go: no tests, no bench) | value |"
echo "|---|---|"
echo "| lines | $lines |"
echo "| lines of test support, among these | $(printf '%s\n' "$support" | xargs cat | wc -l) |"
echo "| packages | $(count "$packages") ($(printf '%s\n' "$packages" | awk '$1 == 1' | wc -l) with one file, $(printf '%s\n' "$packages" | awk '$2 < 150' | wc -l) below 150 lines) |"
echo "| files | $(count "$files"), median $(printf '%s\n' "$sizes" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }') lines, $(printf '%s\n' "$sizes" | awk '$1 < 50' | wc -l) below 50, $(printf '%s\n' "$sizes" | awk '$1 > 600' | wc -l) above 600 |"
echo "| package and import headers | $(awk "BEGIN { printf \"%.1f\", 100 * $header / $lines }") % of all lines |"
echo "| files in the root package | $(printf '%s\n' "$files" | grep -vc /) |"
echo "| interfaces declared | $(printf '%s\n' "$files" | xargs grep -hE '^(type |	)?[A-Za-z]+ interface \{' | wc -l) |"
echo "| flags of weir serve | $(printf '%s\n' "$help" | grep -cE '^ +(-[a-zA-Z], )?--[a-z]') |"
echo "| top-level folders | $(git ls-tree -d --name-only HEAD | grep -vc '^\.') |"
echo "| lines of go doc -all . | $(go doc -all . | wc -l) |"
echo "| words of documentation (at most 35000) | $(git ls-files -z '*.md' | xargs -0 cat | wc -w) |"
