package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/machine"
)

// command runs a program until it exits and returns its standard output. An error contains the
// end of its output.
func command(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var out, faults strings.Builder
	c.Stdout, c.Stderr = &out, &faults
	err := machine.WithDefaultScheduling(c.Start)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		said := strings.TrimSpace(faults.String() + out.String())
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, said[max(0, len(said)-tailMax):])
	}
	return out.String(), nil
}

// once creates the folder name in the cache unless it exists. build fills a temporary folder, which
// is renamed to name after build succeeds.
func (o *Options) once(name, what string, build func(dir string) error) error {
	dest := filepath.Join(o.Cache, name)
	if _, err := os.Stat(dest); err == nil {
		return nil
	}
	began := time.Now()
	o.say("%s: %s, into %s", name, what, dest)
	dir, err := os.MkdirTemp(o.Cache, name+"-new-*")
	if err != nil {
		return err
	}
	if err := build(dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.Rename(dir, dest); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	o.say("%s: installed in %.1f s", name, time.Since(began).Seconds())
	return nil
}

// debian unpacks Debian packages into a folder of the cache. It runs no package scripts and starts
// no services.
func (o *Options) debian(ctx context.Context, name, program string, packages []string) error {
	return o.once(name, "unpacking Debian packages", func(dir string) error {
		for _, tool := range []string{"apt-get", "dpkg"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("%s is not installed, and without %s it cannot be downloaded: install it so that it is in the PATH", program, tool)
			}
		}
		if err := download(ctx, o, dir, packages); err != nil {
			return fmt.Errorf("%s is not installed, and its packages cannot be downloaded (apt-get update as root may help): %w", program, err)
		}
		list, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil {
			return err
		}
		for _, file := range list {
			if _, err := command(ctx, dir, nil, "dpkg", "-x", file, dir); err != nil {
				return err
			}
			if err := os.Remove(file); err != nil {
				return err
			}
		}
		return nil
	})
}

func download(ctx context.Context, o *Options, dir string, packages []string) error {
	args := append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)
	_, err := command(ctx, dir, nil, "apt-get", args...)
	if err == nil || os.Geteuid() != 0 {
		return err
	}
	o.say("the lists of packages are old: apt-get update")
	if _, err := command(ctx, dir, nil, "apt-get", "-q", "update"); err != nil {
		return err
	}
	_, err = command(ctx, dir, nil, "apt-get", args...)
	return err
}

const (
	pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>peer</artifactId><version>1</version><packaging>pom</packaging><dependencies>
%s
</dependencies></project>
`
	// copyGoal is the goal of the Maven plugin that downloads the dependencies of a POM.
	copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
	javaFrom = "a runtime of Java 17 or later (Debian: openjdk-17-jre-headless)"
)

// maven fetches dependencies, in the form of a POM, into the folder lib of a folder of the cache.
func (o *Options) maven(ctx context.Context, name, what, dependencies string) error {
	return o.once(name, "fetching "+what+" from Maven Central", func(dir string) error {
		if err := needs(what, map[string]string{"java": javaFrom, "mvn": "Maven (Debian: maven)"}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), fmt.Appendf(nil, pom, dependencies), 0o600); err != nil {
			return err
		}
		_, err := command(ctx, dir, nil, "mvn", "-q", "-B", copyGoal, "-DoutputDirectory="+filepath.Join(dir, "lib"))
		return err
	})
}

// libraries returns the environment in which programs of unpacked packages find their shared
// libraries.
func libraries(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu*")) // the pattern is valid
	return []string{"LD_LIBRARY_PATH=" + strings.Join(append(list, filepath.Join(dir, "usr/lib")), ":")}
}

// needs returns an error if a program is missing from the PATH. programs maps each program to its
// source.
func needs(what string, programs map[string]string) error {
	for program, from := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s needs the program %s: %s", what, program, from)
		}
	}
	return nil
}
