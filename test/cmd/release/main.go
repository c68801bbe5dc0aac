// Command release checks the output of `make release`: a second build gives the same bytes. It also
// checks the modules in the SBOM, the checksums, the content of the deb package, the unit
// (systemd-analyze, from the Debian package systemd), the alert rules (promtool), and that alerts
// fire in a Prometheus when the S3 server stops. It takes about three minutes, and longer without a
// build cache. It downloads Debian's prometheus once.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

const version = "0.0.1"

func main() {
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "platforms to build, separated by commas")
	campaign.Do(source, func(ctx context.Context) error {
		c := checks{ctx: ctx}
		return c.run(*platforms)
	})
}

type checks struct {
	ctx  context.Context
	root string
	dist string // the artifacts
}

func (c *checks) run(platforms string) (err error) {
	if c.root, err = testenv.Root(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "seb-release-check")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c.dist = filepath.Join(work, "first")
	for _, dir := range []string{c.dist, filepath.Join(work, "second")} {
		if _, err := c.output(filepath.Join(c.root, "packaging"), "go", "run", ".", "-version", version, "-platforms", platforms, "-out", dir); err != nil {
			return err
		}
	}
	var faults []error
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"the same bytes twice", func() error { return c.same(filepath.Join(work, "second")) }},
		{"checksums", c.checksums},
		{"SBOM", func() error { return c.sbom(work) }},
		{"deb", c.deb},
		{"unit", c.unit},
		{"alert rules", c.rules},
		{"alerts", func() error { return c.alerts(work) }},
	} {
		err := check.run()
		fmt.Printf("%-22s %s\n", check.name, map[bool]string{true: "ok", false: "FAILS"}[err == nil])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(faults...)
}

func (c *checks) same(second string) error {
	_, err := c.output(c.root, "diff", "-r", c.dist, second)
	return err
}

func (c *checks) checksums() error {
	_, err := c.output(c.dist, "sha256sum", "--check", "--strict", "checksums.txt")
	return err
}

// sbom checks that the SBOM lists exactly the modules of the program.
func (c *checks) sbom(work string) error {
	text, err := os.ReadFile(filepath.Join(c.dist, "seb_"+version+"_sbom.cdx.json"))
	if err != nil {
		return err
	}
	var bom struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		return err
	}
	var listed, linked []string
	for _, m := range bom.Components {
		if m.Name != "std" {
			listed = append(listed, m.Name+" "+m.Version)
		}
	}
	if _, err := c.output(work, "dpkg-deb", "-x", filepath.Join(c.dist, "seb_"+version+"_amd64.deb"), "deb"); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(filepath.Join(work, "deb", "usr", "bin", "seb"))
	if err != nil {
		return err
	}
	for _, m := range info.Deps {
		linked = append(linked, m.Path+" "+m.Version)
	}
	if !slices.Equal(listed, linked) {
		return fmt.Errorf("SBOM lists %q, the program has %q", listed, linked)
	}
	return nil
}

func (c *checks) deb() error {
	list, err := c.output(c.dist, "dpkg-deb", "-c", "seb_"+version+"_amd64.deb")
	if err != nil {
		return err
	}
	for _, file := range []string{
		"./usr/bin/seb", "./usr/lib/systemd/system/seb.service", "./etc/seb/seb.env", "./usr/share/man/man1/seb.1.gz",
		"./usr/share/bash-completion/completions/seb", "./usr/share/doc/seb/copyright",
		"./usr/share/seb/prometheus/seb.rules.yml", "./usr/share/seb/grafana/seb.json",
	} {
		if !strings.Contains(list, " "+file+"\n") {
			return fmt.Errorf("%s is not in the package:\n%s", file, list)
		}
	}
	return nil
}

// unit checks that systemd finds no fault in the unit and rates its exposure at most 2.0.
func (c *checks) unit() error {
	dir := filepath.Join(c.root, "packaging")
	if _, err := c.output(dir, "systemd-analyze", "security", "--offline=true", "--threshold=20", "seb.service"); err != nil {
		return err
	}
	said, err := c.output(dir, "systemd-analyze", "verify", "seb.service")
	for line := range strings.Lines(said + "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "/usr/bin/seb is not executable") {
			return fmt.Errorf("%s: %w", line, errors.Join(err, errors.New("systemd-analyze verify")))
		}
	}
	return nil
}

// output runs a command and returns its output and errors.
func (c *checks) output(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.ctx, name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", name, err, out.String())
	}
	return out.String(), nil
}
