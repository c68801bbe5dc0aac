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
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

const version = "0.0.1"

func main() {
	var c checks
	flag.StringVar(&c.platforms, "platforms", "linux/amd64,linux/arm64,darwin/arm64", "platforms to build, separated by commas")
	flag.StringVar(&c.dist, "dist", "", "check the artifacts in this folder, of version "+version+", instead of building them")
	flag.DurationVar(&c.unitsTime, "units-time", time.Minute, "how long two units share a bucket")
	only := flag.String("run", "", "run only the checks with names that match this regular expression")
	campaign.Do(source, func(ctx context.Context) (err error) {
		c.ctx = ctx
		if c.only, err = regexp.Compile(*only); err != nil {
			return err
		}
		return c.run()
	})
}

type checks struct {
	ctx       context.Context
	only      *regexp.Regexp
	platforms string
	unitsTime time.Duration
	root      string // of the repository
	work      string // a temporary folder
	dist      string // the artifacts
}

// deb returns the path of the package.
func (c *checks) deb() string { return filepath.Join(c.dist, "seb_"+version+"_amd64.deb") }

// debName returns the name of the package, which is in /srv of a machine.
func (c *checks) debName() string { return filepath.Base(c.deb()) }

func (c *checks) run() (err error) {
	if c.root, err = testenv.Root(); err != nil {
		return err
	}
	if c.work, err = os.MkdirTemp("", "seb-release-check"); err != nil {
		return err
	}
	defer os.RemoveAll(c.work)
	if c.dist == "" {
		c.dist = filepath.Join(c.work, "first")
		_, err = c.output(filepath.Join(c.root, "packaging"), "go", c.release(c.dist)...)
	} else {
		c.dist, err = filepath.Abs(c.dist)
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"the same bytes twice", c.same},
		{"checksums", c.checksums},
		{"SBOM", c.sbom},
		{"deb", c.debFiles},
		{"unit", c.unit},
		{"alert rules", c.rules},
		{"alerts", func() error { return c.alerts(c.work) }},
		{"lintian", c.lintian},
		{"lifecycle of the deb", c.lifecycle},
		{"five commands", c.five},
		{"two units", c.units},
		{"notifications", c.notify},
		{"image", c.image},
	} {
		if !c.only.MatchString(check.name) {
			continue
		}
		err := check.run()
		fmt.Printf("%-22s %s\n", check.name, map[bool]string{true: "ok", false: "FAILS"}[err == nil])
		if err != nil {
			fmt.Println(err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks fail", failed)
	}
	return nil
}

// release returns the arguments of go that make the release into a folder.
func (c *checks) release(out string) []string {
	return []string{"run", ".", "-version", version, "-platforms", c.platforms, "-out", out}
}

// same makes the release a second time, without a network, and compares the bytes.
func (c *checks) same() error {
	second := filepath.Join(c.work, "second")
	args := append([]string{"--net", "--map-root-user", "env", "GOFLAGS=-mod=mod", "GOPROXY=off", "go"}, c.release(second)...)
	if _, err := c.output(filepath.Join(c.root, "packaging"), "unshare", args...); err != nil {
		return err
	}
	_, err := c.output(c.root, "diff", "-r", c.dist, second)
	return err
}

func (c *checks) checksums() error {
	_, err := c.output(c.dist, "sha256sum", "--check", "--strict", "checksums.txt")
	return err
}

// sbom checks that the SBOM lists exactly the modules of the program.
func (c *checks) sbom() error {
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
	if _, err := c.output(c.work, "dpkg-deb", "-x", c.deb(), "deb"); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(filepath.Join(c.work, "deb", "usr", "bin", "seb"))
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

func (c *checks) debFiles() error {
	list, err := c.output(c.dist, "dpkg-deb", "-c", c.deb())
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
