# Follows "Two containers" of docs/guide/cluster.md in a folder with its file (compose.yaml) and its
# commands (commands). $compose is docker compose, $port1 and $port2 are the published ports.
set -eu
trap 'code=$?; test $code = 0 || $compose logs; $compose down --volumes >down.log 2>&1; exit $code' EXIT
wait_for() { # runs a command until it succeeds, for two minutes
	for _ in $(seq 600); do
		if "$@" >wait.log 2>&1; then return; fi
		sleep 0.2
	done
	cat wait.log
	false
}
leads() { curl -sf "http://localhost:$1/readyz?role=leader"; }
seb() { $compose exec -T "$@"; }
standby() { seb "$1" /seb cluster | grep "$2 .*standby *up .*$2:9092"; }
inspect() { docker inspect -f "$2" "$($compose ps -aq "$1")"; }

. ./commands >commands.log
grep hello commands.log
wait_for standby seb2 seb1
leads "$port2"

# The leader is killed, and starts again by itself.
seq 1000 | seb seb1 /seb produce numbers
kill -9 "$(inspect seb2 '{{.State.Pid}}')"
wait_for leads "$port1"
wait_for standby seb1 seb2
test "$(inspect seb2 '{{.RestartCount}}')" = 1

# The leader is stopped, and hands over.
seq 1001 2000 | seb seb2 /seb produce numbers
$compose stop seb1
test "$(inspect seb1 '{{.State.ExitCode}}')" = 0
leads "$port2"
seb seb2 /seb consume numbers >got
seq 2000 | cmp - got

healthy() { test "$(inspect seb2 '{{.State.Health.Status}}')" = healthy; } # after half a minute
wait_for healthy
