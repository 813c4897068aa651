#!/bin/sh
# Starts three nodes that count together on this machine, until Ctrl-C: what
# `make cluster` runs. Usage: cluster.sh WEIR [DIRECTORY [FLAG...]]: flags that
# each node is started with, such as --policy
set -eu
weir=$1
dir=${2:-weir-cluster}
[ $# -lt 2 ] || shift
shift
http="8081 8082 8083"
peers=127.0.0.1:7081,127.0.0.1:7082,127.0.0.1:7083
pids=

# A job of its own each, so that Ctrl-C reaches this script alone.
set -m 2>/dev/null # says so where there is no terminal

stop() {
	trap '' INT TERM
	for pid in $pids; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in $pids; do wait "$pid" || true; done
}
trap 'echo; echo "stopping"; stop; exit 0' INT TERM

fail() {
	echo "cluster: $1; the logs are $dir/n1.log, n2.log and n3.log:" >&2
	tail -n 2 "$dir"/n?.log >&2
	stop
	exit 1
}

mkdir -p "$dir"
chmod 700 "$dir"
# On loopback a cluster goes without TLS and secret; beyond it needs both.
[ -s "$dir/secret" ] || (umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$dir/secret")

# All at once: a cluster's first start needs every node.
i=0
for port in $http; do
	i=$((i + 1))
	"$weir" serve --http "127.0.0.1:$port" --data "$dir/n$i" --cluster example --node "n$i" \
		--cluster-addr "127.0.0.1:708$i" --peers "$peers" --cluster-secret-file "$dir/secret" "$@" >"$dir/n$i.log" 2>&1 &
	pids="$pids $!"
done

echo "starting three nodes, data and logs in $dir"
for i in 1 2 3; do
	tries=0
	until "$weir" cluster --server "127.0.0.1:808$i" >/dev/null 2>&1; do
		for pid in $pids; do kill -0 "$pid" 2>/dev/null || fail "a node has ended"; done
		tries=$((tries + 1))
		[ "$tries" -lt 240 ] || fail "node n$i is not ready after a minute"
		sleep 0.25
	done
done

cat <<END

n1, n2 and n3 are on http://127.0.0.1:8081, 8082 and 8083. Hit one, ask another:

  curl -s localhost:8081/v1/hits -d 'url:/home 3'
  curl -s 'localhost:8083/v1/count?key=url:/home&fresh=2s'
  $weir cluster --server 127.0.0.1:8081

Kill one and look again (kill -9 $(echo $pids | cut -d' ' -f3) is n3); Ctrl-C stops these three. Start n3 again in a shell of its own:

  $weir serve --http 127.0.0.1:8083 --data $dir/n3 --cluster example --node n3 \\
    --cluster-addr 127.0.0.1:7083 --peers $peers --cluster-secret-file $dir/secret${*:+ $*}
END
for pid in $pids; do wait "$pid" || true; done
