package conformance

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/sebbroker/seb/test/testenv"
)

// language has a conformance command.
type language struct {
	name  string // in the report
	needs string // a program that the tests do not install; "": none
	// start returns the command and its environment, after it has built or installed what it needs. dir is an
	// empty folder for that.
	start func(ctx context.Context, root, dir string) (command, env []string, err error)
}

var languages = []language{
	{"Go", "", func(_ context.Context, _, dir string) (command, env []string, err error) {
		path, err := testenv.BuildPackage(dir, "github.com/sebbroker/seb/test/cmd/sdk/goclient")
		return []string{path}, nil, err
	}},
	{"Python", "python3", python()},
	{"Python, sync", "python3", python("--sync")},
	{"JavaScript", "node", func(_ context.Context, root, _ string) (command, env []string, err error) {
		node, err := exec.LookPath("node")
		return []string{node, filepath.Join(root, "sdk/js/dist/conformance.js")}, nil, err
	}},
}

func python(args ...string) func(context.Context, string, string) ([]string, []string, error) {
	return func(ctx context.Context, root, _ string) (command, env []string, err error) {
		python, path, err := testenv.PythonClient(ctx)
		return append([]string{python, filepath.Join(root, "sdk/python/conformance.py")}, args...), []string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1"}, err
	}
}
