package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format that deb makes
)

// archive writes files to a tar.gz, below one folder.
func (r *release) archive(path, folder string, files map[string]string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := r.add(w, folder+"/"+name, files[name]); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	return errors.Join(w.Close(), z.Close(), out.Close())
}

// add adds a file to a tar, with root as the owner and the time of the release.
func (r *release) add(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size(), ModTime: r.time, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// deb builds the package of a platform from nfpm.yaml.
func (r *release) deb(p platform, stage string) error {
	values := map[string]string{"VERSION": r.version, "ARCH": p.arch, "STAGE": stage, "ROOT": r.root}
	text, err := os.ReadFile(filepath.Join(r.root, "packaging", "nfpm.yaml"))
	if err != nil {
		return err
	}
	config, err := nfpm.Parse(strings.NewReader(os.Expand(string(text), func(name string) string { return values[name] })))
	if err != nil {
		return err
	}
	config.MTime = r.time
	for _, c := range config.Contents {
		if c.FileInfo != nil {
			c.FileInfo.MTime = r.time
		}
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	deb, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := deb.Package(info, &b); err != nil {
		return fmt.Errorf("deb: %w", err)
	}
	return os.WriteFile(filepath.Join(r.out, deb.ConventionalFileName(info)), b.Bytes(), 0o644)
}
