# Runs as root at the boot of a machine with systemd. The package is /srv/seb.deb, and /srv/env has
# settings of the broker. The exit code is that of the machine.
set -eux
trap 'code=$?; journalctl --no-pager -u seb | tail -n 40; systemctl exit $code' EXIT

dpkg -i /srv/seb.deb
test "$(systemctl is-enabled seb)" = disabled
test "$(systemctl is-active seb)" = inactive
cat /srv/env >>/etc/seb/seb.env
systemctl enable --now seb
pid=$(systemctl show -P MainPID seb)

# The restrictions of the unit are in force.
test "$(stat -c %U "/proc/$pid")" = seb
for line in 'NoNewPrivs:	1' 'Seccomp:	2' 'CapEff:	0000000000000000' 'CapBnd:	0000000000000000'; do
	grep -qx "$line" "/proc/$pid/status"
done
grep -Eq '^[0-9]+ [0-9]+ [0-9:]+ [^ ]+ / ro' "/proc/$pid/mountinfo"
systemd-analyze security --no-pager --threshold=20 seb

export SEB_ADDRESS="http://127.0.0.1:$(sed -n s/SEB_HTTP_PORT=//p /srv/env)" SEB_API_KEY="$(cat /etc/seb/api-key)"
complete() {
	seb consume demo >/srv/got
	seq 1000 | cmp - /srv/got
}
changed() { # waits for another process than $pid that serves
	for _ in $(seq 600); do
		now=$(systemctl show -P MainPID seb)
		if [ "$now" != 0 ] && [ "$now" != "$pid" ] && [ "$(systemctl is-active seb)" = active ]; then
			pid=$now
			return
		fi
		sleep 0.2
	done
	false
}
seq 1000 | seb produce demo
complete

# A broker that crashes is started again.
kill -KILL "$pid"
changed
test "$(systemctl show -P NRestarts seb)" = 1
complete

# A broker that hangs does not feed the watchdog, and is started again.
kill -STOP "$pid"
changed
complete

# An upgrade restarts a broker that runs, and only such a one.
dpkg -i /srv/seb.deb
changed
complete
systemctl stop seb
test "$(systemctl show -P Result,ExecMainStatus seb | tr '\n' ' ')" = 'success 0 '
dpkg -i /srv/seb.deb
test "$(systemctl is-active seb)" = inactive

# Removing the package stops the broker.
systemctl start seb
complete
dpkg -r seb
test "$(systemctl is-active seb)" = inactive
! journalctl --no-pager -u seb | grep -i 'failed with result' | grep -v -e signal -e watchdog
dpkg -P seb
test ! -e /var/lib/seb
