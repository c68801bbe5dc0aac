package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

const (
	misePackage = "@jdxcode/mise-linux-x64"
	miseVersion = "2026.9.15"
	repository  = "sebbroker/seb"
)

// mise lets mise install the release from a server with the paths of GitHub's releases and the
// answers of its API. mise has to choose the archive of this machine, and those of the other
// platforms for its lock file, by their names alone.
func (c *checks) mise() error {
	program, err := testenv.Install("release/mise-"+miseVersion, "mise "+miseVersion, func(dir string) error {
		if _, err := c.output(dir, "npm", "pack", "--silent", misePackage+"@"+miseVersion); err != nil {
			return err
		}
		_, err := c.output(dir, "sh", "-c", "tar -xzf *.tgz && rm *.tgz")
		return err
	})
	if err != nil {
		return err
	}
	address, end, err := c.github()
	if err != nil {
		return err
	}
	defer end()
	home := filepath.Join(c.work, "mise")
	config := fmt.Sprintf("[tools]\n\"github:%s\" = { version = %q, api_url = \"%s/api/v3\" }\n", repository, version, address)
	if err := errors.Join(os.Mkdir(home, 0o750), os.WriteFile(filepath.Join(home, "mise.toml"), []byte(config), 0o600)); err != nil {
		return err
	}
	mise := func(args ...string) (string, error) {
		cmd := exec.CommandContext(c.ctx, filepath.Join(program, "package/bin/mise"), args...)
		cmd.Dir = home
		cmd.Env = []string{
			"HOME=" + home, "PATH=/usr/bin:/bin", "MISE_TRUSTED_CONFIG_PATHS=" + home, "MISE_YES=1",
			"MISE_GITHUB_ATTESTATIONS=0", "MISE_SLSA=0", // no provenance without GitHub
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("mise %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return string(out), err
	}
	if _, err := mise("install"); err != nil {
		return err
	}
	for _, name := range []string{"seb", "seb-bench", "seb-migrate"} {
		if out, err := mise("exec", "--", name, "version"); err != nil || !strings.Contains(out, version) {
			return fmt.Errorf("%s from mise prints %q, want version %s: %w", name, out, version, err)
		}
	}
	platforms := map[string]string{"linux-x64": "linux_amd64", "linux-arm64": "linux_arm64", "macos-x64": "darwin_amd64", "macos-arm64": "darwin_arm64"}
	for platform, archive := range platforms {
		if _, err := mise("lock", "--platform", platform); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(home, "mise.lock"))
		if err != nil {
			return err
		}
		if want := "/seb_" + version + "_" + archive + ".tar.gz"; !strings.Contains(string(text), want) {
			return fmt.Errorf("mise does not choose %s for %s:\n%s", want, platform, text)
		}
	}
	c.note("mise %s installs seb and finds the archives of %d platforms", miseVersion, len(platforms))
	return nil
}

// github serves the artifacts like GitHub: the files of a release, and the API's list of releases.
func (c *checks) github() (url string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	url = "http://" + l.Addr().String()
	entries, err := os.ReadDir(c.dist)
	if err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	path := "/" + repository + "/releases/download/v" + version
	type asset struct {
		Name string `json:"name"`
		URL  string `json:"url"`
		Page string `json:"browser_download_url"`
	}
	release := struct {
		Tag     string    `json:"tag_name"`
		Name    string    `json:"name"`
		Draft   bool      `json:"draft"`
		Early   bool      `json:"prerelease"`
		Created time.Time `json:"created_at"`
		Assets  []asset   `json:"assets"`
	}{Tag: "v" + version, Name: version, Created: time.Unix(0, 0).UTC()}
	for _, e := range entries {
		file := url + path + "/" + e.Name()
		release.Assets = append(release.Assets, asset{e.Name(), file, file})
	}
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the client reports a broken answer
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+path+"/", http.StripPrefix(path, http.FileServer(http.Dir(c.dist))))
	mux.Handle("GET /api/v3/repos/"+repository+"/releases", answer([]any{release}))
	mux.Handle("GET /api/v3/repos/"+repository+"/releases/latest", answer(release))
	mux.Handle("GET /api/v3/repos/"+repository+"/releases/tags/v"+version, answer(release))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }() // ends with Close
	return url, func() { _ = s.Close() }, nil
}
