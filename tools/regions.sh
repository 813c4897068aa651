#!/bin/sh
# Starts three regions that count together on this machine, until Ctrl-C: what
# `make regions` runs. Usage: [PORT=8091] regions.sh WEIR [DIRECTORY [FLAG...]]:
# flags that each is started with, such as --policy. HTTP is on PORT and the next two.
set -eu
what=regions
weir=$1
dir=${2:-weir-regions}
[ $# -lt 2 ] || shift
shift
. "$(dirname "$0")/servers.sh"
port=${PORT:-8091}
eu=http://127.0.0.1:$port us=http://127.0.0.1:$((port + 1)) ap=http://127.0.0.1:$((port + 2))

# On loopback links go without TLS and tokens; beyond it they need TLS.
start eu --region eu --http "${eu#http://}" --link us=$us --link ap=$ap "$@"
start us --region us --http "${us#http://}" --link eu=$eu --link ap=$ap "$@"
start ap --region ap --http "${ap#http://}" --link eu=$eu --link us=$us "$@"

# has_all: the server answers, has links, and the hits of all regions.
has_all() {
	seen=$("$weir" regions --server "$1" 2>/dev/null) || return 1
	case $seen in *LATE* | *"NOT REACHABLE"* | *"its state is coming"* | *DOWN*) return 1 ;; esac
}

echo "starting three regions, data and logs in $dir"
ready has_all $eu $us $ap

cat <<END

eu, us and ap are on $eu, ${us##*:} and ${ap##*:}. Hit two, ask the third:

  curl -s ${eu#http://}/v1/hits -d 'url:/home 3'
  curl -s ${us#http://}/v1/hits -d 'url:/home 4'
  $weir count url:/home --by region --fresh 5s --server $ap
  $weir regions --server $ap

Kill one and ask again (kill -9 $(echo $pids | cut -d' ' -f2) is us); Ctrl-C stops all. Start us again in a shell of its own:

  $weir serve --region us --http ${us#http://} --data $dir/us --link eu=$eu --link ap=$ap${*:+ $*}
END
until_stopped
