package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// pythonPackages are what the Python client and its tests need: httpx, mypy, and what these need.
var pythonPackages = []string{
	"httpx==0.28.1", "httpcore==1.0.9", "h11==0.16.0", "anyio==4.16.0", "idna==3.20", "certifi==2026.10.19.post1",
	"mypy==2.4.1", "mypy_extensions==1.2.0", "pathspec==1.1.1", "librt==0.17.0", "ast_serialize==0.13.1",
	"typing_extensions==4.16.0", "exceptiongroup==1.3.2", "tomli==2.5.0",
}

// PythonClient installs what the Python client needs. It returns the interpreter, and its PYTHONPATH with the
// client in the repository.
func PythonClient(ctx context.Context) (python, path string, err error) {
	if python, err = exec.LookPath("python3"); err != nil {
		return "", "", errors.New("python3 is not in the PATH: install it (on Debian apt-get install python3)")
	}
	version, err := Command(ctx, ".", python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
	if err != nil {
		return "", "", err
	}
	name := fmt.Sprintf("python-client-1-python%s-%s", strings.TrimSpace(version), runtime.GOARCH)
	packages, err := Pip(ctx, python, name, "httpx and mypy", pythonPackages...)
	if err != nil {
		return "", "", err
	}
	root, err := Root()
	if err != nil {
		return "", "", err
	}
	return python, filepath.Join(root, "sdk/python/src") + ":" + packages, nil
}

// Pip installs a package from PyPI as a wheel, with additional options of pip install. If python3
// has no pip, it uses Debian's.
func Pip(ctx context.Context, path, name, what string, args ...string) (dir string, err error) {
	return Install("interop/"+name, what+" from PyPI", func(dir string) error {
		return RunPip(ctx, path, append([]string{"install", "--only-binary", ":all:", "--target", dir}, args...)...)
	})
}

// RunPip runs a command of pip without dependencies.
func RunPip(ctx context.Context, path string, args ...string) error {
	env := os.Environ()
	if _, err := Command(ctx, ".", path, "-m", "pip", "--version"); err != nil {
		unpacked, err := Debian(ctx, "python3-pip")
		if err != nil {
			return err
		}
		env = append(env, "PYTHONPATH="+filepath.Join(unpacked, "usr/lib/python3/dist-packages"))
	}
	c := exec.CommandContext(ctx, path, append([]string{"-m", "pip", args[0], "-q", "--disable-pip-version-check", "--no-deps"}, args[1:]...)...)
	c.Env = env
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("pip (needs PyPI or a configured mirror): %w: %s", err, out)
	}
	return nil
}
