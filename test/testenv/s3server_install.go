package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Version is the server's version. Its binary is kept by it.
const S3Version = "v1.8.0"

// BinaryVariable is the environment variable that names a binary to use instead of a built one.
const S3BinaryVariable = "SEB_VERSITYGW"

const (
	program = "versitygw"
	module  = "github.com/versity/versitygw/cmd/versitygw"
)

// Binary returns the path of the server, building it with the go command if this repository has none yet, which takes
// minutes. Processes that need it at the same time wait for the one that builds.
func S3Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(S3BinaryVariable); path != "" {
		if !isProgram(path) {
			return "", fmt.Errorf("%s=%s: no program there", S3BinaryVariable, path)
		}
		return path, nil
	}
	path, err := cachedPath()
	if err != nil || isProgram(path) {
		return path, err
	}
	if err := build(ctx, path); err != nil {
		return "", fmt.Errorf("build %s %s: %w", program, S3Version, err)
	}
	return path, nil
}

// Installed says whether Binary would return at once.
func S3Installed() bool {
	if os.Getenv(S3BinaryVariable) != "" {
		return true
	}
	path, err := cachedPath()
	return err == nil && isProgram(path)
}

// cachedPath is found once: the repository does not move while a process runs.
var cachedPath = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".cache", program+"-"+S3Version, program), nil
})

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func build(ctx context.Context, path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	unlock, err := Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if isProgram(path) {
		return nil // somebody else has built it meanwhile
	}
	partial := filepath.Join(dir, "partial") // a build that is cut short leaves nothing under the real name
	command := exec.CommandContext(ctx, "go", "install", module+"@"+S3Version)
	command.Dir = dir
	command.Env = append(cleanEnvironment(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+partial)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return os.Rename(filepath.Join(partial, program), path)
}

// cleanEnvironment is ours without what would change where the go command builds to, or whom the server trusts.
func cleanEnvironment() []string {
	var clean []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case name == "GOOS", name == "GOARCH", name == "GOBIN", name == "GOFLAGS", name == "GOWORK", name == "CGO_ENABLED":
		case strings.HasPrefix(name, "AWS_"), strings.HasPrefix(name, "VGW_"), strings.HasPrefix(name, "ROOT_"):
		default:
			clean = append(clean, entry)
		}
	}
	return clean
}
