package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
)

var (
	distFlag    = flag.String("dist", "", "test the artefacts in this folder, for all platforms, instead of those of a small repository")
	versionFlag = flag.String("dist-version", "0.0.1", "version of the artefacts")
)

// sebMax is the limit for the size of the program.
const sebMax = 31 << 20

// artefacts is a folder that a release has written.
type artefacts struct{ dir, version string }

// TestArtefacts tests the files of a release. By default it makes one of a repository with small
// programs. `go run ./test/cmd/release` tests a real one.
func TestArtefacts(t *testing.T) {
	a := artefacts{*distFlag, *versionFlag}
	archives := platforms
	if a.dir == "" {
		a.dir, archives = t.TempDir(), platforms[:1]
		r := repository(t, "")
		r.version, r.out, r.platforms = a.version, a.dir, archives
		t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
		if err := r.run(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("each file has a checksum", a.testChecksums)
	t.Run("wheel", a.testWheel)
	for _, p := range archives {
		t.Run("archive for "+p.os+"/"+p.arch, func(t *testing.T) { a.testArchive(t, p) })
		if p.os == "linux" {
			t.Run("deb for "+p.arch, func(t *testing.T) { a.testDeb(t, p) })
		}
	}
}

// TestProgramSize: the stripped program is below its limit. Releases are built with -trimpath and
// without cgo, which makes them slightly smaller; this build uses the cache of the other tests.
func TestProgramSize(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the limit is that of linux/amd64")
	}
	file := filepath.Join(t.TempDir(), "seb")
	c := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", file, "./cmd/seb")
	c.Dir = ".."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of at most %d", info.Size(), sebMax)
	if info.Size() > sebMax {
		t.Errorf("the program has %d bytes, at most %d", info.Size(), sebMax)
	}
}

func (a artefacts) read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (a artefacts) testChecksums(t *testing.T) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, e := range entries {
		if e.Name() != "checksums.txt" {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(a.read(t, e.Name())), e.Name())
		}
	}
	if got := string(a.read(t, "checksums.txt")); got != want.String() {
		t.Errorf("checksums.txt has\n%s\nwant\n%s", got, want.String())
	}
}

// testWheel tests that the record of the wheel has each file, and that the client knows its version.
func (a artefacts) testWheel(t *testing.T) {
	version := pythonVersion(a.version)
	text := a.read(t, "sebbroker-"+version+"-py3-none-any.whl")
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := fs.ReadFile(z, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	info := "sebbroker-" + version + ".dist-info/"
	var record strings.Builder
	for _, f := range z.File {
		if f.Name == info+"RECORD" {
			continue
		}
		sum := sha256.Sum256([]byte(read(f.Name)))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), f.UncompressedSize64)
	}
	if got := read(info + "RECORD"); got != record.String()+info+"RECORD,,\n" {
		t.Errorf("RECORD has\n%s, want\n%s", got, record.String())
	}
	for name, want := range map[string]string{
		"sebbroker/_core.py": "\nVERSION = \"" + version + "\"\n", info + "METADATA": "\nVersion: " + version + "\n", "sebbroker/_sync/client.py": "class Client(",
	} {
		if !strings.Contains(read(name), want) {
			t.Errorf("%s does not contain %q", name, want)
		}
	}
}

// listed returns the modules in the SBOM of a program for an operating system.
func (a artefacts) listed(t *testing.T, program, goos string) []string {
	t.Helper()
	var bom struct {
		BOMFormat, SpecVersion string
		Components             []struct {
			Name, Version, PURL string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(a.read(t, program+"_"+a.version+"_"+goos+".cdx.json"), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" {
		t.Errorf("SBOM is %s %s, want CycloneDX 1.6", bom.BOMFormat, bom.SpecVersion)
	}
	var list, vendored []string
	for _, c := range bom.Components {
		if name, ok := strings.CutPrefix(c.PURL, "pkg:npm/"); ok {
			vendored = append(vendored, name)
			continue
		}
		if c.PURL != "pkg:golang/"+c.Name+"@"+c.Version || len(c.Licenses) != 1 || c.Licenses[0].License.ID == "" {
			t.Errorf("SBOM of %s has component %+v, want one licence and a URL with name and version", program, c)
		}
		list = append(list, c.Name+" "+c.Version)
	}
	want := map[string][]string{"seb": {"preact@11.2.0", "uplot@1.6.32"}}
	if !slices.Equal(vendored, want[program]) {
		t.Errorf("SBOM of %s has vendored packages %q, want %q", program, vendored, want[program])
	}
	return list
}

// testArchive tests the names of an archive's files, and the programs in it.
func (a artefacts) testArchive(t *testing.T, p platform) {
	folder := "seb_" + a.version + "_" + p.os + "_" + p.arch // mise and aqua look for this name
	got := untar(t, a.read(t, folder+".tar.gz"))
	var names []string
	for _, name := range []string{
		"LICENSE", "README.md", "completions/seb.bash", "completions/seb.fish", "completions/seb.zsh", "seb", "seb-bench", "seb-migrate", "seb.1.gz",
		"share/grafana/seb.json", "share/prometheus/seb.rules.yml",
	} {
		names = append(names, folder+"/"+name)
	}
	got.test(t, names, "seb", "seb-bench", "seb-migrate")
	for name := range programs {
		want := a.listed(t, name, p.os)
		info, err := buildinfo.Read(bytes.NewReader(got[folder+"/"+name].text))
		if err != nil {
			t.Fatal(err)
		}
		linked := []string{"std " + strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			version := m.Version
			if m.Replace != nil {
				version = a.version
			}
			linked = append(linked, m.Path+" "+version)
		}
		if commit := func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" }; *distFlag != "" && !slices.ContainsFunc(info.Settings, commit) {
			t.Errorf("%s does not contain its commit", name)
		}
		if !slices.Equal(linked, want) {
			t.Errorf("SBOM of %s lists\n%q, the program has\n%q", name, want, linked)
		}
	}
	size := len(got[folder+"/seb"].text)
	t.Logf("seb for %s/%s: %.1f MiB", p.os, p.arch, float64(size)/(1<<20))
	if size > sebMax {
		t.Errorf("seb has %d bytes, the limit is %d", size, sebMax)
	}
}

func (a artefacts) testDeb(t *testing.T, p platform) {
	r := ar.NewReader(bytes.NewReader(a.read(t, "seb_"+a.version+"_"+p.arch+".deb")))
	for {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("no data.tar.gz in the package: %v", err)
		}
		if strings.TrimSuffix(h.Name, "/") != "data.tar.gz" {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		untar(t, text).test(t, []string{
			"./etc/seb/seb.env", "./usr/bin/seb", "./usr/bin/seb-migrate", "./usr/lib/systemd/system/seb.service",
			"./usr/share/bash-completion/completions/seb", "./usr/share/doc/seb/changelog.gz", "./usr/share/doc/seb/copyright",
			"./usr/share/fish/vendor_completions.d/seb.fish", "./usr/share/lintian/overrides/seb", "./usr/share/man/man1/seb.1.gz",
			"./usr/share/seb/grafana/seb.json", "./usr/share/seb/prometheus/seb.rules.yml", "./usr/share/zsh/vendor-completions/_seb",
		}, "seb", "seb-migrate")
		return
	}
}

// files are the files of an archive by name.
type files map[string]struct {
	mode int64
	text []byte
}

func untar(t *testing.T, text []byte) files {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r, list := tar.NewReader(z), files{}
	for {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s has owner %d:%d, want root", h.Name, h.Uid, h.Gid)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		f := list[h.Name]
		f.mode = h.Mode
		if f.text, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		list[h.Name] = f
	}
}

// test checks that there are exactly the named files, none of them empty, and that the programs are
// executable. The man page describes the command serve, and each completion the program.
func (list files) test(t *testing.T, names []string, programs ...string) {
	t.Helper()
	var got []string
	for name, f := range list {
		got = append(got, name)
		if executable := f.mode&0o111 == 0o111; executable != slices.Contains(programs, filepath.Base(name)) || len(f.text) == 0 {
			// The file of bash's completion has the name of the program.
			if !strings.HasSuffix(name, "/completions/seb") && !strings.HasSuffix(name, "/overrides/seb") {
				t.Errorf("%s has mode %o and %d bytes", name, f.mode, len(f.text))
			}
		}
		word := "seb"
		if strings.HasSuffix(name, ".1.gz") {
			z, err := gzip.NewReader(bytes.NewReader(f.text))
			if err != nil {
				t.Fatal(err)
			}
			if f.text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
			word = `.SH "SEB SERVE"`
		} else if !strings.Contains(name, "completions") {
			continue
		}
		if !bytes.Contains(f.text, []byte(word)) {
			t.Errorf("%s does not contain %q", name, word)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("the archive has\n%q, want\n%q", got, names)
	}
}
