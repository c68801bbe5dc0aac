package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/test/testenv"
)

const (
	previousVersion = "0.0.0"
	keyFile         = "/etc/seb/api-key"
	stateDir        = "/var/lib/seb"
	bucketDir       = stateDir + "/data-bucket" // the default bucket of the unit
)

// previous builds the package of the commit before this one.
func (c *checks) previous() (string, error) {
	commit, err := c.output(c.root, "git", "rev-parse", "HEAD~1")
	if err != nil {
		return "", err
	}
	clone, out := filepath.Join(c.work, "previous"), filepath.Join(c.work, "previous-dist")
	for _, args := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", c.root, clone},
		{"git", "-C", clone, "checkout", "--quiet", strings.TrimSpace(commit)},
		{"go", "run", "-C", filepath.Join(clone, "packaging"), ".", "-version", previousVersion, "-platforms", "linux/amd64", "-out", out},
	} {
		if _, err := c.output(c.work, args[0], args[1:]...); err != nil {
			return "", err
		}
	}
	return filepath.Join(out, "seb_"+previousVersion+"_amd64.deb"), nil
}

// lifecycle installs the package of the commit before, upgrades it while a producer writes, removes
// it and purges it. No acknowledged record may be lost.
func (c *checks) lifecycle() error {
	previous, err := c.previous()
	if err != nil {
		return err
	}
	m, err := c.machine()
	if err != nil {
		return err
	}
	if _, err := c.output(c.work, "cp", previous, m.path("/srv/previous.deb")); err != nil {
		return err
	}
	l := lifecycle{machine: m, pkg: c.debName()}
	for _, step := range []func() error{l.install, l.upgrade, l.remove, func() error { return l.purge(c) }, l.purgeEmpty} {
		if err := step(); err != nil {
			return errors.Join(err, l.end())
		}
	}
	return l.end()
}

// lifecycle is the state between the steps.
type lifecycle struct {
	machine machine
	pkg     string // the new package, in /srv
	port    string
	service *service
	writer  *writer
}

func (l *lifecycle) end() error {
	var err error
	if l.writer != nil {
		_, err = l.writer.stop()
	}
	if l.service != nil {
		l.service.close()
	}
	return err
}

// install installs the package of the commit before, configures it, and starts the broker and a
// producer.
func (l *lifecycle) install() error {
	m := l.machine
	if err := m.runAll("dpkg -i previous.deb"); err != nil {
		return err
	}
	for path, mode := range map[string]os.FileMode{keyFile: 0o600, "/etc/seb/seb.env": 0o640} {
		info, err := os.Stat(m.path(path))
		if err != nil {
			return err
		}
		if info.Mode() != mode {
			return fmt.Errorf("%s has mode %s, want %s", path, info.Mode(), mode)
		}
	}
	var err error
	if l.port, err = freePort(); err != nil {
		return err
	}
	if err := m.runAll("printf '%s\\n' SEB_HTTP_PORT=" + l.port + " SEB_KAFKA_LISTEN=127.0.0.1:0 >>/etc/seb/seb.env"); err != nil {
		return err
	}
	if l.service, err = m.start(); err != nil {
		return err
	}
	if err := l.service.ready(); err != nil {
		return err
	}
	l.writer, err = newWriter(m, l.port)
	return err
}

// upgrade installs the new package while the broker runs. Without systemd the package does not
// touch the broker. Then the broker is restarted.
func (l *lifecycle) upgrade() error {
	m := l.machine
	if err := l.writer.more(); err != nil {
		return err
	}
	before := l.service.history()
	if err := m.runAll("dpkg --force-confold -i "+l.pkg, "grep -q SEB_HTTP_PORT="+l.port+" /etc/seb/seb.env"); err != nil {
		return err
	}
	if after := l.service.history(); after.starts != before.starts || after.running == nil {
		return fmt.Errorf("the upgrade stopped the broker: %+v", after)
	}
	if err := errors.Join(l.writer.more(), l.version(previousVersion)); err != nil {
		return err
	}
	if code, err := l.service.stop(); err != nil || code != 0 {
		return fmt.Errorf("stop of the earlier version: exit code %d, %w", code, err)
	}
	var err error
	if l.service, err = m.start(); err != nil {
		return err
	}
	return errors.Join(l.service.ready(), l.writer.more(), l.version(version), l.complete())
}

// version checks the version of the running broker.
func (l *lifecycle) version(want string) error {
	out, err := l.machine.run("curl -sS -H \"Authorization: Bearer $(cat " + keyFile + ")\" http://127.0.0.1:" + l.port + "/status")
	if err == nil && !strings.Contains(out, `"version":"`+want+`"`) {
		err = fmt.Errorf("the broker is not version %s", want)
	}
	return err
}

// complete stops the producer, and checks that the broker has exactly the acknowledged records.
func (l *lifecycle) complete() error {
	want, err := l.writer.stop()
	if err != nil {
		return err
	}
	out, err := l.machine.run("seb consume demo --address http://127.0.0.1:" + l.port + " --api-key-file " + keyFile + " 2>/dev/null")
	if err != nil {
		return err
	}
	if got := strings.Fields(out); !slices.Equal(got, want) {
		return fmt.Errorf("%d records acknowledged, %d read:\n%.2000s", len(want), len(got), out)
	}
	return nil
}

// remove removes the package while the broker runs, and installs it again: all records are there.
func (l *lifecycle) remove() error {
	m := l.machine
	const enabled = "/etc/systemd/system/multi-user.target.wants/seb.service" // as by systemctl enable
	if err := m.runAll("ln -s /lib/systemd/system/seb.service "+enabled, "dpkg -r seb", "test ! -L "+enabled, "test ! -e /usr/bin/seb", "test -e "+keyFile, "test -d "+stateDir+"/data", "test -d "+bucketDir); err != nil {
		return err
	}
	if code, err := l.service.stop(); err != nil || code != 0 {
		return fmt.Errorf("stop of a removed broker: exit code %d, %w", code, err)
	}
	if err := m.runAll("dpkg -i " + l.pkg); err != nil {
		return err
	}
	var err error
	if l.service, err = m.start(); err != nil {
		return err
	}
	if err := errors.Join(l.service.ready(), l.complete()); err != nil {
		return err
	}
	_, err = l.service.stop()
	return err
}

// kept is the sentence of a purge that keeps records.
const kept = "is kept: a bucket folder in it may hold records"

// purge purges the package: the data directory is deleted, the bucket with all records is not. Then
// it does the same with a bucket in the data directory, the default of older versions.
func (l *lifecycle) purge(c *checks) error {
	m := l.machine
	tools := filepath.Join(c.work, "purge")
	if _, err := c.output(c.work, "dpkg-deb", "-x", c.deb(), tools); err != nil {
		return err
	}
	for _, bucket := range []string{bucketDir, stateDir + "/data/bucket"} {
		out, err := m.run("dpkg -P seb")
		if err != nil {
			return err
		}
		if !strings.Contains(out, stateDir+" "+kept) {
			return fmt.Errorf("dpkg -P seb does not print %q:\n%s", kept, out)
		}
		if err := m.runAll("test ! -e "+keyFile, "test ! -e /etc/seb"); err != nil {
			return err
		}
		// The purge has deleted the key, but every record is there.
		if _, err := c.output(c.work, filepath.Join(tools, "usr/bin/seb"), "fsck", "--bucket", "file:"+m.path(bucket)); err != nil {
			return err
		}
		if bucket == bucketDir {
			err = m.runAll("test ! -e "+stateDir+"/data", "mkdir -p "+stateDir+"/data", "mv "+bucketDir+" "+stateDir+"/data/bucket", "dpkg -i "+l.pkg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// purgeEmpty checks that a purge without records leaves nothing.
func (l *lifecycle) purgeEmpty() error {
	return l.machine.runAll("rm -rf "+stateDir, "dpkg -i "+l.pkg, "install -d "+stateDir+"/data/cache", "dpkg -P seb", "test ! -e "+stateDir, "test ! -e /etc/seb")
}

func freePort() (string, error) {
	port, err := testenv.FreePort()
	return strconv.Itoa(port), err
}
