#!/bin/sh
# The programs that tests and benchmarks need besides Go, and how they are installed.
#
#   tools/programs.sh            installs what is missing (as root, on Debian), then lists what still is
#   tools/programs.sh NAME...    installs these; a missing one is an error
#   tools/programs.sh missing    lists what is missing
#
# With STRICT=1 anything that is missing is an error.
cd "$(dirname "$0")/.." || exit 1

# name | how to look for it | packages of Debian, or a folder of npm | what is left out without it
table='
redis|redis-cli redis-benchmark python:redis python:limits|redis-tools python3-redis python3-limits|the RESP listener with redis-cli, redis-py and limits
redis-server|redis-server|redis-server|comparisons with Redis
proxies|caddy nginx haproxy|caddy nginx haproxy|the recipes of docs/proxies.md
statsd|python:statsd|python3-statsd|the StatsD listener with python-statsd
curl|curl|curl|commands of the documentation
python|python3|python3|the client for Python
npm|node npm|nodejs npm|clients and limiters for Node.js
listeners|npm:bench/listeners/npm|npm|limiters for Node.js on the RESP listener
tsc|npm:clients/typescript|npm|the client for TypeScript
web|npm:web|npm|the source of the dashboard
docs|npm:docs/.vitepress|npm|the site of the documentation
chromium|chromium|chromium fonts-dejavu-core|the dashboard in a browser
tmux|tmux|tmux|weir top --every in a terminal
promtool|promtool|prometheus|alert rules and the Grafana dashboard
postgres|postgres|postgresql|history in Postgres
mariadb|mariadbd|mariadb-server|history in MariaDB
goaccess|goaccess|goaccess|goaccess in the replay benchmark
root|-||full and read-only disks, on file systems of their own
iproute2|ip tc|iproute2|clusters in network namespaces
gcc|gcc|gcc libc6-dev|the race detector
'
tests='redis redis-server proxies statsd curl python npm listeners tsc web chromium tmux promtool postgres mariadb'

row() { echo "$table" | grep "^$1|"; }
field() { row "$1" | cut -d '|' -f "$2"; }

# present says whether all of one row is there.
present() {
  for probe in $(field "$1" 2); do
    case $probe in
      python:*) /usr/bin/python3 -c "import ${probe#python:}" ;;
      npm:*) cmp -s "${probe#npm:}/package-lock.json" "${probe#npm:}/node_modules/installed.json" ;;
      *) command -v "$probe" || ls /usr/sbin/"$probe" || ls /usr/lib/postgresql/*/bin/"$probe" ;;
    esac >/dev/null 2>&1 || return 1
  done
}

updated=
install() {
  probe=$(field "$1" 2)
  case $probe in
    npm:*)
      command -v npm >/dev/null || return 1
      folder=${probe#npm:}
      echo "installing the npm packages of $folder"
      (cd "$folder" && npm ci --ignore-scripts --loglevel=error && cp package-lock.json node_modules/installed.json) ;;
    *)
      [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
      [ -n "$updated" ] || { apt-get update -qq; updated=yes; }
      echo "installing $(field "$1" 3)"
      # shellcheck disable=SC2046 # a list of packages
      apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $(field "$1" 3) >/dev/null ;;
  esac
}

# missing prints a table of those that are not there, and fails if there are any.
missing() {
  left=
  for name; do present "$name" || left="$left $name"; done
  [ "$(id -u)" = 0 ] || left="$left root"
  [ -n "$left" ] || return 0
  echo "Missing, and left out of the tests:"
  for name in $left; do
    case $(field "$name" 2) in -) how="run as root" ;; npm:*) how="npm ci in $(field "$name" 2 | cut -c 5-)" ;; *) how="apt-get install $(field "$name" 3)" ;; esac
    printf '  %-56s %s\n' "$(field "$name" 4)" "$how"
  done
  return 1
}

if [ "$1" = missing ]; then
  echo "Left out of every run, for they have commands of their own:"
  printf '  %-56s %s\n' "tests of other projects' limiters (TestSuites)" "make suites" "long soaks, simulations and crashes" "make soak"
  # shellcheck disable=SC2086 # a list of names
  missing $tests || [ "${STRICT:-}" != 1 ]
  exit
fi
[ $# -gt 0 ] && STRICT=1 || eval "set -- $tests"
for name; do
  [ -n "$(row "$name")" ] || { echo "tools/programs.sh: no program \"$name\"; there are: $(echo "$table" | cut -d '|' -f 1 | xargs)" >&2; exit 1; }
  present "$name" || install "$name" || :
done
[ "${STRICT:-}" = 1 ] || exit 0
missing "$@" >&2
