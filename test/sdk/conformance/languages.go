package conformance

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sebbroker/seb/test/testenv"
)

// language has a conformance command.
type language struct {
	name string // in the report
	// start returns the command and its environment, after it has built or installed what it needs. dir is an
	// empty folder for that.
	start func(ctx context.Context, root, dir string) (command, env []string, err error)
}

// errMissing: the repository has no such SDK.
var errMissing = errors.New("the repository has no SDK of this language")

var languages = []language{
	{"Go", func(_ context.Context, _, dir string) (command, env []string, err error) {
		path, err := testenv.BuildPackage(dir, "github.com/sebbroker/seb/test/cmd/sdk/goclient")
		return []string{path}, nil, err
	}},
	{"Python", func(_ context.Context, root, _ string) (command, env []string, err error) {
		file := filepath.Join(root, "sdk", "python", "conformance.py")
		if _, err := os.Stat(file); err != nil {
			return nil, nil, errMissing
		}
		python, err := exec.LookPath("python3")
		return []string{python, file}, []string{"PYTHONPATH=" + filepath.Join(root, "sdk", "python", "src")}, err
	}},
	{"JavaScript", func(_ context.Context, root, _ string) (command, env []string, err error) {
		if _, err := os.Stat(filepath.Join(root, "sdk", "js", "conformance.ts")); err != nil {
			return nil, nil, errMissing
		}
		node, err := exec.LookPath("node")
		return []string{node, filepath.Join(root, "sdk", "js", "dist", "conformance.js")}, nil, err
	}},
}
