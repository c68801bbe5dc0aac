// Command packaging makes a release: archives for Linux and macOS, deb packages, an image for
// containers, a wheel of the Python client, lists of all modules with their licences (SBOM), and
// checksums. The same commit and version give the same bytes. A module without an allowed licence is an error.
//
//	make release VERSION=0.1.0
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// platform is what a release is built for.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// release is one run of the program.
type release struct {
	ctx       context.Context
	version   string
	root      string // of the repository: its main module
	out       string // folder of the artefacts
	work      string // folder of a platform's files, STAGE in nfpm.yaml
	platforms []platform
	time      time.Time // time of all files in the artefacts: that of the commit
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := release{ctx: ctx}
	flag.StringVar(&r.version, "version", "", "version of the release, such as 0.1.0")
	flag.StringVar(&r.out, "out", "dist", "folder for the artefacts, relative to the repository; emptied first")
	only := flag.String("platforms", "", "platforms to build, such as linux/amd64,darwin/arm64 (default: all)")
	flag.Parse()
	for p := range strings.SplitSeq(*only, ",") {
		if p != "" {
			goos, arch, _ := strings.Cut(p, "/")
			r.platforms = append(r.platforms, platform{goos, arch})
		}
	}
	if *only == "" {
		r.platforms = platforms
	}
	if err := r.run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func (r *release) run() (err error) {
	if !semver.MatchString(r.version) {
		return fmt.Errorf("-version %q: want MAJOR.MINOR.PATCH, such as 0.1.0", r.version)
	}
	if r.root == "" {
		if r.root, err = r.output("git", "rev-parse", "--show-toplevel"); err != nil {
			return err
		}
	}
	if r.time, err = r.commitTime(); err != nil {
		return err
	}
	if !filepath.IsAbs(r.out) {
		r.out = filepath.Join(r.root, r.out)
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "seb-release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.licences(); err != nil {
		return fmt.Errorf("licences: %w", err)
	}
	if err := r.documents(); err != nil {
		return fmt.Errorf("man page and completions: %w", err)
	}
	if err := r.wheel(); err != nil {
		return fmt.Errorf("wheel: %w", err)
	}
	var images []image
	for _, p := range r.platforms {
		fmt.Fprintln(os.Stderr, "building", p.os, p.arch)
		if err := r.platform(p); err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
		if p.os == "linux" {
			images = append(images, image{p.arch, filepath.Join(r.stage(p), "seb")})
		}
	}
	if err := r.image(images); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	described := map[string]bool{} // operating systems
	for _, p := range r.platforms {
		for name := range programs {
			if described[p.os] {
				continue
			}
			if err := r.sbom(p, name); err != nil {
				return fmt.Errorf("SBOM of %s: %w", name, err)
			}
		}
		described[p.os] = true
	}
	return r.checksums()
}

// commitTime returns $SOURCE_DATE_EPOCH, else the time of the commit.
func (r *release) commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = r.output("git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (r *release) stage(p platform) string { return filepath.Join(r.work, p.os+"_"+p.arch) }

// platform builds the programs for one platform and packs them.
func (r *release) platform(p platform) error {
	stage := r.stage(p)
	if err := os.CopyFS(stage, os.DirFS(filepath.Join(r.work, "documents"))); err != nil {
		return err
	}
	for name := range programs {
		if _, err := r.build(p, name); err != nil {
			return err
		}
	}
	files := map[string]string{ // in the archive, on disk
		"LICENSE": filepath.Join(r.root, "LICENSE"), "README.md": filepath.Join(r.root, "README.md"),
		"share/prometheus/seb.rules.yml": filepath.Join(r.root, "packaging", "prometheus", "seb.rules.yml"),
		"share/grafana/seb.json":         filepath.Join(r.root, "packaging", "grafana", "seb.json"),
	}
	for _, name := range []string{"seb", "seb-bench", "seb-migrate", "seb.1.gz", "completions/seb.bash", "completions/seb.zsh", "completions/seb.fish"} {
		files[name] = filepath.Join(stage, name)
	}
	name := fmt.Sprintf("seb_%s_%s_%s", r.version, p.os, p.arch)
	if err := r.archive(filepath.Join(r.out, name+".tar.gz"), name, files); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	return r.deb(p, stage)
}

// programs are the programs of a release, with the folders of their modules.
var programs = map[string]string{"seb": ".", "seb-bench": "bench", "seb-migrate": "migrate"}

// build builds a program once and returns its path.
func (r *release) build(p platform, name string) (string, error) {
	out := filepath.Join(r.stage(p), name)
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	cmd := exec.CommandContext(r.ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+r.version, "-o", out, "./cmd/"+name)
	cmd.Dir = filepath.Join(r.root, programs[name])
	// Not empty, because then go would use the flags of its own settings.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=-buildvcs=auto")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, text)
	}
	return out, nil
}

// checksums writes checksums.txt, which `sha256sum -c` reads.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out) // sorted by name
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), text.Bytes(), 0o644)
}

// output runs a command in the repository and returns its stdout, without the last newline.
func (r *release) output(name string, args ...string) (string, error) {
	return r.outputIn(r.root, name, args...)
}

// outputIn is output in another folder.
func (r *release) outputIn(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir = dir
	var fault strings.Builder
	cmd.Stderr = &fault
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(slices.Concat([]string{name}, args), " "), err, fault.String())
	}
	return strings.TrimSpace(string(out)), nil
}
