# Runs as root at the boot of each of two machines with systemd. /srv has the package, the settings of
# the guide (settings), its commands (commands) and the name of the machine (role). The exit code is that
# of the machine.
set -eu
trap 'code=$?; journalctl --no-pager -u seb | tail -n 60; systemctl exit $code' EXIT
wait_for() { # runs a command until it succeeds, for two minutes
	for _ in $(seq 600); do
		if "$@"; then return; fi
		sleep 0.2
	done
	false
}
leader() { curl -s -w "%{http_code}" "http://$1.internal:51313/readyz?role=leader" >/srv/ready || cat /srv/ready; grep -q "200$" /srv/ready; }
linked() { SEB_API_KEY_FILE=/etc/seb/api-key seb cluster --address http://db1.internal:51313 | grep "standby *up"; }

role=$(cat /srv/role)
dpkg -i /srv/seb.deb
if [ "$role" = db2 ]; then
	wait_for test -e /srv/api-key # a copy of that of the first machine
	install -m 600 /srv/api-key /etc/seb/api-key
fi
cat /srv/settings >>/etc/seb/seb.env
systemctl enable --now seb
test "$(systemctl is-active seb)" = active
touch /srv/started
if [ "$role" = db1 ]; then
	sleep infinity # the machine dies
fi

# The commands of the guide: the second broker follows, takes over and gives back.
wait_for linked
. /srv/commands
wait_for leader db2
seb cluster hand-over
wait_for leader db1
! leader db2

# All machines serve. The second leads when the first one is gone, and has its records.
export SEB_ADDRESS=http://db2.internal:51313
seq 1000 | seb produce demo
touch /srv/kill
wait_for leader db2
seq 1001 2000 | seb produce demo
seb consume demo >/srv/got
seq 2000 | cmp - /srv/got
test "$(systemctl show -P NRestarts seb)" = 0
systemctl stop seb
