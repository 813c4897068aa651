#!/usr/bin/env bash
# memory.sh WEIR: what the process takes at most, in MiB (VmHWM), for several --memory: a
# server with its data on disk takes as many new keys as its budget holds twice, and its
# kernel says what it had. Linux; ends in a minute or two.
set -eu
weir=$1
port=${PORT:-18980}
printf '%-10s %-10s %-10s %s\n' --memory peak keys "peak, times --memory"
for memory in ${MEMORY:-64 256 1024}; do
  dir=$(mktemp -d)
  "$weir" serve --http "127.0.0.1:$port" --data "$dir/data" --memory "${memory}MiB" --max-disk 16GiB 2>"$dir/log" &
  pid=$!
  trap 'kill $pid 2>/dev/null; rm -rf "$dir"' EXIT
  for _ in $(seq 100); do
    curl -sf "127.0.0.1:$port/readyz" >/dev/null && break
    kill -0 $pid 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
    sleep 0.1
  done
  batches=$((memory * 2 * 1048576 / 150 / 50000 + 1)) # a key with few hits has some 150 bytes
  for batch in $(seq "$batches"); do
    awk -v batch="$batch" 'BEGIN { for (i = 0; i < 50000; i++) printf "user:%d:%d\n", batch, i }' |
      curl -sf -o /dev/null -H 'Content-Type: text/plain' --data-binary @- "127.0.0.1:$port/v1/hits" || { tail -3 "$dir/log" >&2; exit 1; }
  done
  keys=$("$weir" stats --server "127.0.0.1:$port" | awk '$1 == "keys" { print $2 }')
  peak=$(awk '$1 == "VmHWM:" { print int($2 / 1024) }' /proc/$pid/status)
  awk -v m="$memory" -v p="$peak" -v k="$keys" 'BEGIN { printf "%-10s %-10s %-10s %.1f\n", m "MiB", p "MiB", k, p / m }'
  kill $pid
  wait $pid || true
  rm -rf "$dir"
done
trap - EXIT
