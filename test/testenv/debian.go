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

// Debian installs a program's Debian package, and the packages that it needs and this machine has not got, without
// installing them: they are unpacked into a folder of the cache, and nothing of them runs. Programs of it need Libraries.
func Debian(ctx context.Context, name string) (dir string, err error) {
	return Install("interop/debian-"+name, name+" from Debian", func(dir string) error {
		for _, tool := range []string{"apt-get", "dpkg"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("%s is fetched from Debian by apt-get and dpkg, and there is no %s here", name, tool)
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

// download gets a package and what it needs that is not installed, with the lists of packages made new if that is the fault.
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
		return fmt.Errorf("its packages can not be fetched (apt-get update as root may help; it needs Debian's packages or a mirror of them): %w", first)
	}
	return nil
}

// Libraries is the environment variable by which programs in a folder of Debian find their libraries.
func Libraries(dir string) string {
	list, _ := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu*")) // the pattern is right
	return "LD_LIBRARY_PATH=" + strings.Join(append(list, filepath.Join(dir, "usr/lib")), ":")
}

// saidMax is how much of what a program said an error has.
const saidMax = 2000

// Command runs a program to its end in a folder and returns what it printed; an error has the end of what it said.
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
