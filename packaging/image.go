package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image is the program for one architecture.
type image struct{ arch, program string }

// user is the owner of /data and of the process.
const user = 65532

// image writes an OCI image index with an image for each architecture: the program and the
// certificates of public authorities, nothing else.
func (r *release) image(images []image) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		files, err := r.layer(i.program)
		if err != nil {
			return err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(files)), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer}); err != nil {
			return err
		}
		img, err = mutate.ConfigFile(img, r.config(img, i.arch))
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: i.arch},
		}})
	}
	// The layout has one entry, the index: tools choose the image of their architecture from it.
	dir := filepath.Join(r.work, "image")
	files, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := files.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	return r.folder(filepath.Join(r.out, "seb_"+r.version+"_oci.tar"), dir)
}

// config returns the configuration of the image's containers.
func (r *release) config(img v1.Image, arch string) *v1.ConfigFile {
	old, err := img.ConfigFile()
	if err != nil {
		panic(err) // cannot fail in memory
	}
	c := old.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: r.time}
	c.History = []v1.History{{Created: v1.Time{Time: r.time}, CreatedBy: "make release"}}
	c.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/seb"}, Cmd: []string{"serve"}, WorkingDir: "/data",
		Env:          []string{"SEB_DATA_DIR=/data/seb", "SEB_HTTP_ADDRESS=0.0.0.0", "SEB_KAFKA_LISTEN=0.0.0.0:9092", "SEB_LOG_FORMAT=json"},
		ExposedPorts: map[string]struct{}{"51313/tcp": {}, "9092/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/seb", "health"}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "seb", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.source":   "https://github.com/sebbroker/seb",
			"org.opencontainers.image.licenses": "MIT",
		},
	}
	return c
}

// layer returns the tar of the image's files.
func (r *release) layer(program string) ([]byte, error) {
	var b, roots bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	w := tar.NewWriter(&b)
	for _, dir := range []tar.Header{
		{Name: "data/", Mode: 0o700, Uid: user, Gid: user},
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "tmp/", Mode: 0o1777},
	} {
		dir.Typeflag, dir.ModTime, dir.Format = tar.TypeDir, r.time, tar.FormatPAX
		if err := w.WriteHeader(&dir); err != nil {
			return nil, err
		}
	}
	h := tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Size: int64(roots.Len()), ModTime: r.time, Format: tar.FormatPAX}
	if err := w.WriteHeader(&h); err != nil {
		return nil, err
	}
	if _, err := w.Write(roots.Bytes()); err != nil {
		return nil, err
	}
	if err := r.add(w, "seb", program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // writes the padding and the end
		return nil, err
	}
	return b.Bytes(), nil
}

// folder writes the files of a folder to a tar.
func (r *release) folder(path, dir string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return r.add(w, filepath.ToSlash(name), path)
	})
	if err != nil {
		return err
	}
	return w.Close()
}
