package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

const (
	imageUser = "65532:65532"
	imageMax  = 25 << 20 // compressed, for one architecture
)

// image checks the container image with skopeo: both architectures, the user, one layer, the size.
// It runs the image as its user with a read-only root folder.
func (c *checks) image() error {
	var index struct {
		Manifests []struct {
			Platform struct{ OS, Architecture string }
		}
	}
	if err := c.skopeo(&index, "inspect", "--raw", c.archive()); err != nil {
		return err
	}
	var platforms []string
	for _, m := range index.Manifests {
		platforms = append(platforms, m.Platform.OS+"/"+m.Platform.Architecture)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		return fmt.Errorf("the image is for %q, want %q", platforms, want)
	}
	var env []string
	for _, arch := range []string{"arm64", "amd64"} {
		config, err := c.imageConfig(arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		env = config.Env
	}
	return c.runImage(filepath.Join(c.work, "image-amd64"), env)
}

// archive is the image as skopeo names it.
func (c *checks) archive() string {
	return "oci-archive:" + filepath.Join(c.dist, "seb_"+version+"_oci.tar")
}

// skopeo runs skopeo from Debian and decodes its output.
func (c *checks) skopeo(v any, args ...string) error {
	dir, err := testenv.Debian(c.ctx, "skopeo")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(c.ctx, filepath.Join(dir, "usr/bin/skopeo"), append([]string{"--insecure-policy"}, args...)...)
	cmd.Env = append(os.Environ(), testenv.Libraries(dir))
	var fault strings.Builder
	cmd.Stderr = &fault
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("skopeo %s: %w\n%s", strings.Join(args, " "), err, fault.String())
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(out, v)
}

// imageConfig is how a container runs.
type imageConfig struct {
	User            string
	Env, Entrypoint []string
	Healthcheck     struct{ Test []string }
}

// imageConfig checks the image for one architecture and unpacks its layers.
func (c *checks) imageConfig(arch string) (imageConfig, error) {
	var config struct{ Config imageConfig }
	if err := c.skopeo(&config, "--override-arch", arch, "inspect", "--config", "--raw", c.archive()); err != nil {
		return imageConfig{}, err
	}
	layers, root := filepath.Join(c.work, "layers-"+arch), filepath.Join(c.work, "image-"+arch)
	if err := c.skopeo(nil, "--override-arch", arch, "copy", c.archive(), "dir:"+layers); err != nil {
		return imageConfig{}, err
	}
	var manifest struct {
		Layers []struct {
			Digest string
			Size   int64
		}
	}
	text, err := os.ReadFile(filepath.Join(layers, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err == nil {
		err = os.Mkdir(root, 0o755)
	}
	if err != nil {
		return imageConfig{}, err
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].Size > imageMax {
		return imageConfig{}, fmt.Errorf("layers %+v, want one of at most %d bytes", manifest.Layers, imageMax)
	}
	if u := config.Config.User; u != imageUser {
		return imageConfig{}, fmt.Errorf("user %q, want %q", u, imageUser)
	}
	if e, h := config.Config.Entrypoint, config.Config.Healthcheck.Test; !slices.Equal(e, []string{"/seb"}) || !slices.Equal(h, []string{"CMD", "/seb", "health"}) {
		return imageConfig{}, fmt.Errorf("entry point %q, health check %q", e, h)
	}
	_, err = c.output(root, "tar", "-xzpf", filepath.Join(layers, strings.TrimPrefix(manifest.Layers[0].Digest, "sha256:")))
	c.note("%s: %.1f MB compressed", arch, float64(manifest.Layers[0].Size)/1e6)
	return config.Config, err
}

// runImage starts the broker in a root folder that it cannot write, with /data as a volume. The
// process is that of the broker: every step replaces the one before.
func (c *checks) runImage(root string, env []string) error {
	volume := filepath.Join(c.work, "volume")
	if err := errors.Join(os.Mkdir(volume, 0o700), os.Chown(volume, 65532, 65532)); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	env = append(slices.Clone(env), "SEB_HTTP_PORT="+port, "SEB_KAFKA_LISTEN=127.0.0.1:0", "PATH="+os.Getenv("PATH"))
	const script = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && ! touch "$1/probe" 2>/dev/null &&
mount --bind "$2" "$1/data" && shift 2 && exec chroot --userspec=` + imageUser + ` "$@"`
	contained := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(c.ctx, "unshare", slices.Concat([]string{"--mount", "sh", "-c", script, "sh", root, volume, root, "/seb"}, args)...)
		cmd.Env = env
		cmd.SysProcAttr = testenv.Attributes()
		return cmd
	}
	var log strings.Builder
	broker := contained("serve")
	broker.Stdout, broker.Stderr = &log, &log
	if err := broker.Start(); err != nil {
		return err
	}
	err = useImage(contained, "http://127.0.0.1:"+port, filepath.Join(volume, "seb", "api-key"))
	begin := time.Now()
	_ = broker.Process.Signal(syscall.SIGTERM) // it may have ended: Wait returns how
	kill := time.AfterFunc(time.Minute, func() { _ = broker.Process.Kill() })
	defer kill.Stop()
	if err := errors.Join(err, broker.Wait()); err != nil {
		return fmt.Errorf("broker of the image: %w\n%s", err, log.String())
	}
	c.note("stopped in %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

// useImage waits until the health check of the image succeeds, and produces a record.
func useImage(contained func(args ...string) *exec.Cmd, address, keyFile string) error {
	const limit = time.Minute
	end := time.Now().Add(limit)
	for {
		out, err := contained("health").CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("health check after %s: %w: %s", limit, err, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return produce(address, keyFile)
}
