package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// S3Version is the server's version, and part of the cached binary's path.
const S3Version = "v1.8.0"

// S3BinaryVariable is the environment variable of a binary to use instead of a built one.
const S3BinaryVariable = "SEB_VERSITYGW"

const (
	program = "versitygw"
	module  = "github.com/versity/versitygw/cmd/versitygw"

	s3Folder = program + "-" + S3Version // of the cache
)

// S3Binary returns the path of the server. If the cache does not have it, it builds the server with
// the go command, which takes minutes.
func S3Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(S3BinaryVariable); path != "" {
		if !isProgram(path) {
			return "", fmt.Errorf("%s=%s: not an executable file", S3BinaryVariable, path)
		}
		return path, nil
	}
	dir, err := Install(s3Folder, s3Folder, func(dir string) error { return buildS3(ctx, dir) })
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, program)
	if !isProgram(path) {
		return "", fmt.Errorf("%s: not an executable file; delete its folder", path)
	}
	return path, nil
}

// S3Installed reports whether S3Binary would return immediately.
func S3Installed() bool {
	root, err := Root()
	return os.Getenv(S3BinaryVariable) != "" || err == nil && isProgram(filepath.Join(root, ".cache", s3Folder, program))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func buildS3(ctx context.Context, dir string) error {
	command := exec.CommandContext(ctx, "go", "install", module+"@"+S3Version)
	command.Dir = dir
	command.Env = append(cleanEnvironment(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+dir)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// cleanEnvironment returns the environment without variables that change the go command's output or
// the server's accounts.
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
