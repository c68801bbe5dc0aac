// Command release makes a release and checks it: the same bytes a second time without a network,
// checksums, modules in the SBOM, licences, content of archives and packages. It checks the deb
// (lintian, install, upgrade, remove, purge), the unit (systemd-analyze, notifications, watchdog,
// two units on one bucket, two machines by the guide), the image, two containers by the guide if a
// docker daemon runs, alerts in a Prometheus when the S3 server stops, and an installation by mise.
// It ends with a table of all checks. It needs root, apt-get and npm, and downloads Debian packages
// once. It takes about ten minutes, and longer without a build cache.
// -arm64 also runs the tests of the core on an emulated arm64, which takes ten more minutes.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

const version = "0.0.1"

func main() {
	var c checks
	flag.StringVar(&c.platforms, "platforms", "", "platforms to build, such as linux/amd64,darwin/arm64; not all checks pass without the others (default: all)")
	flag.StringVar(&c.dist, "dist", "", "check the artifacts in this folder, of version "+version+", instead of building them")
	flag.DurationVar(&c.unitsTime, "units-time", 20*time.Second, "how long two units share a bucket")
	flag.BoolVar(&c.withARM64, "arm64", false, "run the tests of the core on an emulated arm64 too")
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
	withARM64 bool
	root      string   // of the repository
	work      string   // a temporary folder
	dist      string   // the artifacts
	notes     []string // of the current check
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
	return c.all()
}

type check struct {
	name string
	run  func() error
}

// all runs the selected checks and prints a table of their results.
func (c *checks) all() error {
	list := []check{
		{"same bytes twice, no network", c.same},
		{"checksums", c.checksums},
		{"files, SBOM, size", c.artifacts},
		{"licences", c.licences},
		{"unit", c.unit},
		{"alert rules", c.rules},
		{"alerts", c.alerts},
		{"lintian", c.lintian},
		{"lifecycle of the deb", c.lifecycle},
		{"five commands", c.five},
		{"two units", c.units},
		{"notifications", c.notify},
		{"systemd", c.systemd},
		{"two machines", c.twoMachines},
		{"image", c.image},
		{"compose", c.compose},
		{"mise", c.mise},
	}
	if c.withARM64 {
		list = append(list, check{"core tests on arm64", c.arm64})
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	failed := 0
	for _, check := range list {
		if !c.only.MatchString(check.name) {
			continue
		}
		fmt.Printf("== %s\n", check.name)
		begin, result := time.Now(), "ok"
		c.notes = nil
		if err := check.run(); errors.Is(err, errSkipped) {
			fmt.Println(err)
			result = "skipped"
		} else if err != nil {
			fmt.Println(err)
			failed++
			result = "FAILS"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", check.name, result, time.Since(begin).Round(time.Second), strings.Join(c.notes, "; "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\nversion %s, commit %s\n%s", version, campaign.Version(c.ctx), table.String())
	if failed > 0 {
		return fmt.Errorf("%d checks fail", failed)
	}
	return nil
}

// note prints a result, which the table shows too.
func (c *checks) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Println("  ", text)
	c.notes = append(c.notes, text)
}

// release returns the arguments of go that make the release into a folder.
func (c *checks) release(out string) []string {
	return []string{"run", "-trimpath", ".", "-version", version, "-platforms", c.platforms, "-out", out}
}

// same makes the release a second time and compares the bytes. The second time has no network, and
// no modules but those of `go mod download`.
func (c *checks) same() error {
	modules := filepath.Join(c.work, "modules")
	cached, err := c.output(c.root, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return err
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(cached), "\n")
	defer func() { _, _ = c.output(c.work, "chmod", "-R", "u+w", modules) }() // so that it can be deleted
	for _, dir := range []string{"", "bench", "packaging", "tools"} {
		// Modules that are on this machine are copied from its cache.
		env := []string{"GOMODCACHE=" + modules, "GOPROXY=file://" + cache + "/cache/download," + proxy, "GOFLAGS=-modcacherw"}
		if _, err := c.output(filepath.Join(c.root, dir), "env", append(env, "go", "mod", "download")...); err != nil {
			return err
		}
	}
	second := filepath.Join(c.work, "second")
	args := append([]string{"--net", "--map-root-user", "env", "GOMODCACHE=" + modules, "GOPROXY=off", "GOFLAGS=", "go"}, c.release(second)...)
	if _, err := c.output(filepath.Join(c.root, "packaging"), "unshare", args...); err != nil {
		return err
	}
	entries, err := os.ReadDir(second)
	if err != nil {
		return err
	}
	c.note("%d files", len(entries))
	_, err = c.output(c.root, "diff", "-r", c.dist, second)
	return err
}

func (c *checks) checksums() error {
	_, err := c.output(c.dist, "sha256sum", "--check", "--strict", "checksums.txt")
	return err
}

// size matches a line of the test of the artifacts.
var size = regexp.MustCompile(`seb for (\S+ \S+ MiB)`)

// artifacts runs the test of the release's module on the artifacts.
func (c *checks) artifacts() error {
	out, err := c.output(filepath.Join(c.root, "packaging"), "go", "test", "-count=1", "-v", "-run", "TestArtefacts", ".", "-dist", c.dist, "-dist-version", version)
	for _, m := range size.FindAllStringSubmatch(out, -1) {
		c.note("%s", m[1])
	}
	return err
}

// licences checks that a module with another licence is found. The release has passed the check.
func (c *checks) licences() error {
	_, err := c.output(filepath.Join(c.root, "packaging"), "go", "test", "-count=1", "-run", "TestLicences", ".")
	return err
}

// exposure matches the last line of `systemd-analyze security`.
var exposure = regexp.MustCompile(`exposure level for seb.service: \S+`)

// unit checks that systemd finds no fault in the unit and rates its exposure at most 2.0.
func (c *checks) unit() error {
	m, err := c.tools()
	if err != nil {
		return err
	}
	if err := m.runAll("dpkg -x seb.deb /"); err != nil {
		return err
	}
	out, err := m.run("systemd-analyze security --no-pager --offline=true --threshold=20 seb.service")
	if err != nil {
		return err
	}
	c.note("%s", exposure.FindString(out))
	if out, err = m.run("systemd-analyze verify seb.service"); err == nil && out != "" {
		err = errors.New(out)
	}
	return err
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
