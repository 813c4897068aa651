#!/bin/sh
# Writes what packages have beside the program into bin/release: man pages, shell completions, the systemd unit
# with the path of packages, and an empty settings file.
set -e
cd "$(dirname "$0")/.."
to=bin/release
rm -rf "$to"
mkdir -p "$to/man" "$to/completions"
go build -o "$to/weir" ./cmd/weir
"$to/weir" man "$to/man"
gzip -9n "$to"/man/*
"$to/weir" completion bash >"$to/completions/weir.bash"
"$to/weir" completion zsh >"$to/completions/_weir"
"$to/weir" completion fish >"$to/completions/weir.fish"
sed 's,/usr/local/bin/weir,/usr/bin/weir,' deploy/weir.service >"$to/weir.service"
cat >"$to/weir.env" <<'END'
# Settings of the weir service, one a line: the flags of weir serve --help as variables.
# WEIR_HTTP=0.0.0.0:8080
# WEIR_TOKENS=/etc/weir/tokens.yaml
END
rm "$to/weir"
