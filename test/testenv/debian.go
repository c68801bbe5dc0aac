package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian downloads a program's Debian package and its missing dependencies and unpacks them into a
// folder of the cache. It does not install them, and runs none of their scripts. The programs need
// Libraries.
func Debian(ctx context.Context, name string) (dir string, err error) {
	return Install("interop/debian-"+name, name+" from Debian", func(dir string) error {
		for _, tool := range []string{"apt-get", "dpkg"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("%s from Debian needs apt-get and dpkg: %s not found", name, tool)
			}
		}
		if err := download(ctx, dir, name); err != nil {
			return err
		}
		list, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil {
			return err
		}
		for _, file := range list {
			if _, err := Command(ctx, dir, "dpkg", "-x", file, dir); err != nil {
				return err
			}
			if err := os.Remove(file); err != nil {
				return err
			}
		}
		return nil
	})
}

// download gets a package and its dependencies that are not installed. It updates the lists of
// packages if they are the cause of an error.
func download(ctx context.Context, dir, name string) error {
	get := func() error {
		out, err := Command(ctx, dir, "apt-get", "install", "--print-uris", "--no-install-recommends", "-qq", name)
		if err != nil {
			return err
		}
		packages := []string{name} // not in the list if it is installed
		for line := range strings.Lines(out) {
			// 'http://…/kcat_1.7.1-2_amd64.deb' kcat_1.7.1-2_amd64.deb 33792 SHA256:…
			fields := strings.Fields(line)
			if len(fields) < 2 || !strings.HasSuffix(fields[1], ".deb") {
				continue
			}
			if p, _, _ := strings.Cut(fields[1], "_"); p != name {
				packages = append(packages, p)
			}
		}
		_, err = Command(ctx, dir, "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)...)
		return err
	}
	first := get()
	if first == nil {
		return nil
	}
	if os.Geteuid() == 0 {
		if _, err := Command(ctx, dir, "apt-get", "-q", "update"); err != nil {
			return errors.Join(first, err)
		}
		first = get()
	}
	if first != nil {
		return fmt.Errorf("cannot download packages (apt-get update as root may help; it needs Debian's packages or a mirror of them): %w", first)
	}
	return nil
}

// Libraries returns the environment variable that programs of Debian need to find their libraries
// in dir.
func Libraries(dir string) string {
	var folders []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/*", "lib/*-linux-gnu*"} { // some packages have a folder of their own
		list, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is valid
		for _, folder := range list {
			if libraries, _ := filepath.Glob(filepath.Join(folder, "*.so*")); len(libraries) > 0 {
				folders = append(folders, folder)
			}
		}
	}
	return "LD_LIBRARY_PATH=" + strings.Join(append(folders, filepath.Join(dir, "usr/lib")), ":")
}

// saidMax bounds the output of a program in an error.
const saidMax = 2000

// Command runs a program in a folder and returns its output. An error includes the end of its error
// output.
func Command(ctx context.Context, dir, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	var out, faults strings.Builder
	c.Stdout, c.Stderr = &out, &faults
	if err := c.Run(); err != nil {
		said := strings.TrimSpace(out.String() + faults.String())
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, said[max(0, len(said)-saidMax):])
	}
	return out.String(), nil
}
