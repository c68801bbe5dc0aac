// Package console tests the web console in a real browser. cases/*.mjs are the cases: each is a
// module with a name and a function that gets a page which is logged in (run.mjs). Go starts the
// broker and the browser. `go run ./test/cmd/console` runs every case; `make test` runs one.
package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sebbroker/seb/test/testenv"
)

// fonts is a configuration of fontconfig with the fonts of one folder, so that pictures look the
// same everywhere.
const fonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>%s</dir><cachedir>%s</cachedir></fontconfig>
`

// Browser returns Chromium and the environment that it needs: the installed one, or Debian's.
func Browser(ctx context.Context) (program string, env []string, err error) {
	letters, err := testenv.Debian(ctx, "fonts-dejavu-core")
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(letters, "fonts.conf")
	text := fmt.Sprintf(fonts, filepath.Join(letters, "usr/share/fonts"), filepath.Join(letters, "cache"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	env = []string{"FONTCONFIG_FILE=" + config}
	if program, err = exec.LookPath("chromium"); err == nil {
		return program, env, nil
	}
	chromium, err := testenv.Debian(ctx, "chromium-headless-shell")
	if err != nil {
		return "", nil, err
	}
	program = filepath.Join(chromium, "usr/lib/chromium/chromium-headless-shell")
	if _, err := os.Stat(program); err != nil {
		return "", nil, err
	}
	return program, append(env, testenv.Libraries(chromium)), nil
}

// Modules returns a folder with the node_modules of package-lock.json, which is in dir.
func Modules(ctx context.Context, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	return testenv.Install("console/npm-"+hex.EncodeToString(sum[:8]), "playwright, axe and TypeScript from npm", func(to string) error {
		for _, name := range []string{"package.json", "package-lock.json"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
				return err
			}
		}
		if _, err := testenv.Command(ctx, to, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
			return fmt.Errorf("npm ci (needs the npm registry or a configured mirror): %w", err)
		}
		return nil
	})
}
