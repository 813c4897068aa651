#!/bin/sh
# Starts three nodes that count together on this machine, until Ctrl-C: what
# `make cluster` runs. Usage: cluster.sh WEIR [DIRECTORY [FLAG...]]: flags that
# each node is started with, such as --policy
set -eu
what=cluster
weir=$1
dir=${2:-weir-cluster}
[ $# -lt 2 ] || shift
shift
http="8081 8082 8083"
peers=127.0.0.1:7081,127.0.0.1:7082,127.0.0.1:7083
. "$(dirname "$0")/servers.sh"

# On loopback a cluster goes without TLS and secret; beyond it needs both.
[ -s "$dir/secret" ] || (umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$dir/secret")

# All at once: a cluster's first start needs every node.
i=0
for port in $http; do
	i=$((i + 1))
	start "n$i" --http "127.0.0.1:$port" --cluster example --node "n$i" \
		--cluster-addr "127.0.0.1:708$i" --peers "$peers" --cluster-secret-file "$dir/secret" "$@"
done

echo "starting three nodes, data and logs in $dir"
answers() { "$weir" cluster --server "$1" >/dev/null 2>&1; }
ready answers 127.0.0.1:8081 127.0.0.1:8082 127.0.0.1:8083

cat <<END

n1, n2 and n3 are on http://127.0.0.1:8081, 8082 and 8083. Hit one, ask another:

  curl -s localhost:8081/v1/hits -d 'url:/home 3'
  curl -s 'localhost:8083/v1/count?key=url:/home&fresh=2s'
  $weir cluster --server 127.0.0.1:8081

Kill one and look again (kill -9 $(echo $pids | cut -d' ' -f3) is n3); Ctrl-C stops these three. Start n3 again in a shell of its own:

  $weir serve --http 127.0.0.1:8083 --data $dir/n3 --cluster example --node n3 \\
    --cluster-addr 127.0.0.1:7083 --peers $peers --cluster-secret-file $dir/secret${*:+ $*}
END
until_stopped
