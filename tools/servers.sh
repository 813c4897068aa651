# What cluster.sh and regions.sh have in common and read in: servers that run on this machine, until Ctrl-C. They set
# `what` (the word for messages), `weir` (the program) and `dir` (of data and logs).
pids=

# A job of its own each, so that Ctrl-C reaches the script alone.
set -m 2>/dev/null # says so where there is no terminal

stop() {
	trap '' INT TERM
	for pid in $pids; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in $pids; do wait "$pid" || true; done
}
trap 'echo; echo "stopping"; stop; exit 0' INT TERM

fail() {
	echo "$what: $1; the logs are $dir/*.log:" >&2
	tail -n 2 "$dir"/*.log >&2
	stop
	exit 1
}

mkdir -p "$dir"
chmod 700 "$dir"

# start NAME FLAG...: a server with the data and the log of a name.
start() {
	name=$1
	shift
	"$weir" serve --data "$dir/$name" "$@" >"$dir/$name.log" 2>&1 &
	pids="$pids $!"
}

# ready CHECK SERVER...: waits until a command succeeds for each server.
ready() {
	check=$1
	shift
	for server; do
		tries=0
		until "$check" "$server"; do
			for pid in $pids; do kill -0 "$pid" 2>/dev/null || fail "a server has ended (if a port is in use, choose others: make $what PORT=...)"; done
			tries=$((tries + 1))
			[ "$tries" -lt 240 ] || fail "$server is not ready after a minute"
			sleep 0.25
		done
	done
}

# until_stopped waits for the servers to end.
until_stopped() {
	for pid in $pids; do wait "$pid" || true; done
}
