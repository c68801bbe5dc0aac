// Package campaign is the shared frame of the programs below test/cmd and bench/cmd. Most of them
// run `go test` with arguments that their flags select. With -h a program prints its doc comment
// and its flags. It runs in any folder of the repository, and exits with the code of its first
// command that fails.
package campaign

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/internal/operate/quiet"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	exitError       = 1
	exitInterrupted = 130
	// killAfter is how long an interrupted command may take to end.
	killAfter = 10 * time.Second
)

// Step is one command of a program.
type Step struct {
	Dir  string   // from the root of the repository; "" is the root
	Env  []string // in addition to this process's
	Args []string // the command and its arguments
}

// Test returns a step that runs tests of a package with -v, without a time limit and without cached
// results. pkg is relative to the root of the repository, run selects the tests, and args are flags
// of the test.
func Test(pkg, run string, args ...string) Step {
	return Step{Args: slices.Concat([]string{"go", "test", "./" + pkg, "-run", run, "-count=1", "-v", "-timeout", "0"}, args)}
}

// Main parses the flags and runs the selected steps until one fails. It does not return. source is
// the text of the program's main.go, whose doc comment is the help text. Arguments after -- go to
// the last step, as in `go run ./test/cmd/torture -kills 100 -- -at-once 1`.
func Main(source string, steps func(ctx context.Context) ([]Step, error)) {
	Do(source, func(ctx context.Context) error {
		list, err := steps(ctx)
		if err != nil {
			return err
		}
		last := &list[len(list)-1]
		last.Args = append(last.Args, flag.Args()...)
		for _, s := range list {
			if err := s.Run(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Do is Main for a program that does its work itself. It calls f in the root of the repository,
// with a context that ends at the first SIGINT or SIGTERM.
func Do(source string, f func(ctx context.Context) error) {
	quiet.Restore()
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help(source), "\nFlags:\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program immediately
	root, err := testenv.Root()
	if err == nil {
		err = os.Chdir(root)
	}
	if err == nil {
		err = f(ctx)
	}
	interrupted := ctx.Err() != nil
	stop()
	var exit *exec.ExitError
	switch {
	case interrupted:
		os.Exit(exitInterrupted)
	case errors.As(err, &exit) && exit.ExitCode() > 0: // the command has printed the reason
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitError)
	}
	os.Exit(0)
}

// help returns the doc comment of a main.go.
func help(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		text, ok := strings.CutPrefix(line, "//")
		if !ok {
			break
		}
		b.WriteString(strings.TrimPrefix(text, " "))
	}
	return b.String()
}

// Run runs the command with the output of this process. When ctx ends, the command and all its
// child processes get SIGINT, and after ten seconds SIGKILL.
func (s *Step) Run(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "+", strings.Join(s.Args, " "))
	c := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	c.Dir, c.Env = s.Dir, append(os.Environ(), s.Env...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = killAfter
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	err := c.Run()
	if ctx.Err() != nil && c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // an error means that no process is left
	}
	return err
}

// Flags returns the named flags of this program with their values, as arguments for a test.
func Flags(names ...string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "-" + name + "=" + flag.Lookup(name).Value.String()
	}
	return list
}

// S3 builds the S3 server of the tests if it is not built yet.
func S3(ctx context.Context) error {
	if !testenv.S3Installed() {
		fmt.Fprintf(os.Stderr, "building the S3 server for tests (versitygw %s); this takes minutes, but only once\n", testenv.S3Version)
	}
	_, err := testenv.S3Binary(ctx)
	return err
}

// Version returns the commit of the repository for a report, or "unknown" without git.
func Version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// Program returns the path of a seb: version itself if it is a file, or built in the new folder dir
// from a commit or, without a version, from the working tree.
func Program(ctx context.Context, dir, version string) (string, error) {
	if info, err := os.Stat(version); err == nil && info.Mode().IsRegular() {
		return filepath.Abs(version)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if version == "" {
		return testenv.Build(dir)
	}
	if exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", version+"^{commit}").Run() != nil {
		return "", fmt.Errorf("%q is neither a program nor a commit of this clone: for an old commit, run git fetch --unshallow", version)
	}
	archive, path := filepath.Join(dir, "source.tar"), filepath.Join(dir, "seb")
	for _, s := range []Step{
		{Args: []string{"git", "archive", "--output", archive, version}},
		{Dir: dir, Args: []string{"tar", "-xf", archive}},
		{Dir: dir, Args: []string{"go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./cmd/seb"}},
	} {
		if err := s.Run(ctx); err != nil {
			return "", errors.Join(fmt.Errorf("build the program of %s", version), err)
		}
	}
	return path, nil
}

// BuildSeb builds bin/seb.
func BuildSeb(ctx context.Context) error {
	s := Step{Args: []string{"go", "build", "-ldflags", "-X main.version=" + Version(ctx), "-o", "bin/seb", "./cmd/seb"}}
	return s.Run(ctx)
}

// BuildSebBench builds bin/seb-bench.
func BuildSebBench(ctx context.Context) error {
	version := Version(ctx)
	stamp := "-buildvcs=auto" // results name the commit, regardless of GOFLAGS
	if version == "unknown" {
		stamp = "-buildvcs=false"
	}
	s := Step{Dir: "bench", Args: []string{
		"go", "build", stamp, "-ldflags", "-X main.version=" + version, "-o", "../bin/seb-bench", "./cmd/seb-bench",
	}}
	return s.Run(ctx)
}

// RealTime returns the prefix of a command for real-time priority. It is empty if that is not
// permitted, or if a single core would have no time left for other processes.
func RealTime() []string {
	if runtime.NumCPU() < 2 || exec.Command("chrt", "-f", "1", "true").Run() != nil {
		return nil
	}
	return []string{"chrt", "-f", "1"}
}
