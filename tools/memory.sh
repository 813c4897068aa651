#!/usr/bin/env bash
# memory.sh WEIR: what the process takes at most, in MiB (VmHWM), for several --memory: a
# server with its data on disk and history takes as many new keys as its budget holds twice, and history writes them for
# ten seconds more. Its kernel says what it had, how much of it are pages of files (RssFile: the program, which the kernel takes back
# when it needs memory), and for how long it computed until the last key came. Fails where the peak is beyond what
# docs/deploy.md says, 1.25 x --memory + 144 MiB, by more than a third: a slow machine takes more while it collects. Linux; ends in a few minutes.
set -eu
weir=$1
port=${PORT:-18980}
worst=0
printf '%-10s %-10s %-10s %-10s %-8s %-22s %s\n' --memory peak "of files" usual keys "peak, times --memory" "CPU, us a key"
for memory in ${MEMORY:-64 256 1280}; do
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
      curl -sf --retry 60 --retry-delay 1 -o /dev/null -H 'Content-Type: text/plain' --data-binary @- "127.0.0.1:$port/v1/hits" || { tail -3 "$dir/log" >&2; exit 1; }
  done
  cpu=$(awk -v hz="$(getconf CLK_TCK)" -v keys=$((batches * 50000)) '{ printf "%.1f", ($14 + $15) / hz * 1e6 / keys }' /proc/$pid/stat)
  keys=$("$weir" stats --server "127.0.0.1:$port" | awk '$1 == "keys" { print $2 }')
  sleep 10
  peak=$(awk '$1 == "VmHWM:" { print int($2 / 1024) }' /proc/$pid/status)
  files=$(awk '$1 == "RssFile:" { print int($2 / 1024) }' /proc/$pid/status)
  usual=$((memory * 5 / 4 + 144))
  [ "$peak" -le $((usual * 4 / 3)) ] || worst=1
  awk -v m="$memory" -v p="$peak" -v f="$files" -v o="$usual" -v k="$keys" -v c="$cpu" 'BEGIN { printf "%-10s %-10s %-10s %-10s %-8s %-22.2f %s\n", m "MiB", p "MiB", f "MiB", o "MiB", k, p / m, c }'
  kill $pid
  wait $pid || true
  rm -rf "$dir"
done
trap - EXIT
[ $worst = 0 ] || { echo "memory.sh: a process took more than docs/deploy.md says" >&2; exit 1; }
