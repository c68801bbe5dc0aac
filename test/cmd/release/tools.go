package main

import (
	"path/filepath"

	"github.com/sebbroker/seb/test/testenv"
)

// tools returns a machine with lintian and systemd, which is downloaded once. It has the package of
// this release in /srv as seb.deb.
func (c *checks) tools() (machine, error) {
	system, err := testenv.Install("release/tools-"+debian, "lintian and systemd from Debian "+debian, func(dir string) error {
		m, err := c.machine()
		if err != nil {
			return err
		}
		if _, err := c.output(dir, "cp", "-a", m.dir, filepath.Join(dir, "root")); err != nil {
			return err
		}
		tools := machine{c.ctx, filepath.Join(dir, "root")}
		return tools.runAll("apt-get update -q", "apt-get install -qy --no-install-recommends lintian systemd", "apt-get clean")
	})
	if err != nil {
		return machine{}, err
	}
	tools := machine{c.ctx, filepath.Join(system, "root")}
	_, err = c.output(c.work, "cp", c.deb(), tools.path("/srv/seb.deb"))
	return tools, err
}

// lintian checks the package with Debian's lintian: it has neither errors nor warnings. Findings
// that are not faults are in packaging/lintian-overrides with the reason.
func (c *checks) lintian() error {
	tools, err := c.tools()
	if err != nil {
		return err
	}
	return tools.runAll("lintian --allow-root --fail-on error,warning --tag-display-limit 0 seb.deb")
}
