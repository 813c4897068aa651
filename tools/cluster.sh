#!/bin/sh
# Starts three nodes that count together on this machine, until Ctrl-C: what
# `make cluster` runs. Usage: [PORT=8081] cluster.sh WEIR [DIRECTORY [FLAG...]]: flags that
# each node is started with, such as --policy. HTTP is on PORT and the next two,
# the cluster 1,000 below, RESP 1,000 above.
set -eu
what=cluster
weir=$1
dir=${2:-weir-cluster}
[ $# -lt 2 ] || shift
shift
port=${PORT:-8081}
h1=127.0.0.1:$port h2=127.0.0.1:$((port + 1)) h3=127.0.0.1:$((port + 2))
c1=127.0.0.1:$((port - 1000)) c2=127.0.0.1:$((port - 999)) c3=127.0.0.1:$((port - 998))
peers=$c1,$c2,$c3
. "$(dirname "$0")/servers.sh"

# On loopback a cluster goes without TLS and secret; beyond it needs both.
[ -s "$dir/secret" ] || (umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$dir/secret")

# All at once: a cluster's first start needs every node.
node() {
	name=$1 http=$2 cluster=$3
	shift 3
	start "$name" --http "$http" --resp "127.0.0.1:$((${http#*:} + 1000))" --cluster example --node "$name" \
		--cluster-addr "$cluster" --peers "$peers" --cluster-secret-file "$dir/secret" "$@"
}
node n1 "$h1" "$c1" "$@"
node n2 "$h2" "$c2" "$@"
node n3 "$h3" "$c3" "$@"

echo "starting three nodes, data and logs in $dir"
answers() { "$weir" cluster --server "$1" >/dev/null 2>&1; }
ready answers "$h1" "$h2" "$h3"

cat <<END

n1, n2 and n3 are on http://$h1, ${h2#*:} and ${h3#*:}. Redis clients connect to a port 1,000 higher. Hit one, ask another:

  curl -s $h1/v1/hits -d 'url:/home 3'
  curl -s '$h3/v1/count?key=url:/home&fresh=2s'
  $weir cluster --server $h1

Kill one and look again (kill -9 $(echo $pids | cut -d' ' -f3) is n3); Ctrl-C stops these three. Start n3 again in a shell of its own:

  $weir serve --http $h3 --resp 127.0.0.1:$((port + 1002)) --data $dir/n3 --cluster example --node n3 \\
    --cluster-addr $c3 --peers $peers --cluster-secret-file $dir/secret${*:+ $*}
END
until_stopped
