package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// corePackages are the packages that encode, order and store records.
var corePackages = []string{"./record", "./internal/engine/base/codec", "./internal/engine/log/...", "./internal/engine/objstore", "./driplang/..."}

// arm64 runs the short tests of the core on linux/arm64, which qemu emulates.
func (c *checks) arm64() error {
	qemu, err := testenv.Debian(c.ctx, "qemu-user-static")
	if err != nil {
		return err
	}
	list, err := c.output(c.root, "go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"}, corePackages...)...)
	if err != nil {
		return err
	}
	var packages, passed, skipped int
	for line := range strings.Lines(list) {
		pkg, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		out, err := c.emulated(filepath.Join(qemu, "usr/bin/qemu-aarch64-static"), pkg, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		packages++
		passed += strings.Count(out, "\n--- PASS: ")
		skipped += strings.Count(out, "\n--- SKIP: ")
	}
	c.note("%d tests of %d packages pass, %d are skipped", passed, packages, skipped)
	if passed == 0 {
		return errors.New("no test")
	}
	return nil
}

// emulated builds the test program of a package, runs it in the package's folder, and returns its
// output.
func (c *checks) emulated(qemu, pkg, dir string) (string, error) {
	program := filepath.Join(c.work, "arm64.test")
	build := exec.CommandContext(c.ctx, "go", "test", "-c", "-vet=off", "-o", program, pkg)
	build.Dir = c.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	// Tests that start their own program find the script as the program's name.
	script := filepath.Join(c.work, "arm64.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec %s -0 %s %s \"$@\"\n", qemu, script, program), 0o700); err != nil {
		return "", err
	}
	begin := time.Now()
	out, err := c.output(dir, script, "-test.short", "-test.v", "-test.timeout=20m")
	fmt.Printf("   %s %s\n", pkg, time.Since(begin).Round(time.Second))
	return out, err
}
