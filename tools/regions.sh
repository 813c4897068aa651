#!/bin/sh
# Starts three regions that count together on this machine, until Ctrl-C: what
# `make regions` runs. Usage: regions.sh WEIR [DIRECTORY [FLAG...]]:
# flags that each is started with, such as --policy
set -eu
weir=$1
dir=${2:-weir-regions}
[ $# -lt 2 ] || shift
shift
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
	echo "regions: $1; the logs are $dir/eu.log, us.log and ap.log:" >&2
	tail -n 2 "$dir"/??.log >&2
	stop
	exit 1
}

mkdir -p "$dir"
chmod 700 "$dir"
eu=http://127.0.0.1:8091 us=http://127.0.0.1:8092 ap=http://127.0.0.1:8093

# On loopback links go without TLS and tokens; beyond it they need TLS.
start() {
	name=$1 http=$2
	shift 2
	"$weir" serve --region "$name" --http "${http#http://}" --data "$dir/$name" "$@" >"$dir/$name.log" 2>&1 &
	pids="$pids $!"
}
start eu $eu --link us=$us --link ap=$ap "$@"
start us $us --link eu=$eu --link ap=$ap "$@"
start ap $ap --link eu=$eu --link us=$us "$@"

# has_all: the server answers, has links, and the hits of all regions.
has_all() {
	seen=$("$weir" regions --server "$1" 2>/dev/null) || return 1
	case $seen in *LATE* | *"its state is coming"* | *DOWN*) return 1 ;; esac
}

echo "starting three regions, data and logs in $dir"
for http in $eu $us $ap; do
	tries=0
	until has_all "$http"; do
		for pid in $pids; do kill -0 "$pid" 2>/dev/null || fail "a server has ended"; done
		tries=$((tries + 1))
		[ "$tries" -lt 240 ] || fail "$http is not ready after a minute"
		sleep 0.25
	done
done

cat <<END

eu, us and ap are on $eu, 8092 and 8093. Hit two, ask the third:

  curl -s localhost:8091/v1/hits -d 'url:/home 3'
  curl -s localhost:8092/v1/hits -d 'url:/home 4'
  $weir count url:/home --by region --fresh 5s --server $ap
  $weir regions --server $ap

Kill one and ask again (kill -9 $(echo $pids | cut -d' ' -f2) is us); Ctrl-C stops all. Start us again in a shell of its own:

  $weir serve --region us --http 127.0.0.1:8092 --data $dir/us --link eu=$eu --link ap=$ap${*:+ $*}
END
for pid in $pids; do wait "$pid" || true; done
