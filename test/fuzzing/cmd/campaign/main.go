// Command campaign runs every fuzz target of the module for some time each and prints a table, or keeps what they found:
//
//	campaign -time 5m                   run all of them
//	campaign -run 'record.*Object'      run those whose package and name match
//	campaign -keep                      add to testdata/fuzz what covers more than what is there
//
// It compiles the targets so that coverage is counted in the module's own packages only. The engine looks at every counter
// after every input, and those of the standard library and of other modules, which are tested elsewhere, are nine in ten.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == toolArg {
		os.Exit(tool(os.Args[2:]))
	}
	each := flag.Duration("time", 30*time.Second, "time for each target")
	workers := flag.Int("parallel", 2, "worker processes of a target")
	run := flag.String("run", "", "only targets whose folder and name, as in record/FuzzSplit, match this expression")
	keep := flag.Bool("keep", false, "instead of running them, keep inputs that were found before and cover something new")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := campaign(ctx, options{each: *each, workers: *workers, run: *run, keep: *keep}); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

type options struct {
	each    time.Duration
	workers int
	run     string
	keep    bool
}

func campaign(ctx context.Context, o options) error {
	match, err := regexp.Compile(o.run)
	if err != nil {
		return err
	}
	targets, err := findTargets(".")
	if err != nil {
		return err
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !match.MatchString(t.String()) })
	if len(targets) == 0 {
		return fmt.Errorf("no target matches %q", o.run)
	}
	if o.keep {
		return keepAll(ctx, targets)
	}
	return runAll(ctx, targets, &o)
}

// target is a fuzz target of a package.
type target struct {
	dir  string // with slashes, relative to the module
	name string
}

func (t target) String() string { return t.dir + "/" + t.name }

var targetLine = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// findTargets reads the tests of a module.
func findTargets(root string) ([]target, error) {
	var found []target
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range targetLine.FindAllSubmatch(text, -1) {
			found = append(found, target{dir: filepath.ToSlash(filepath.Dir(path)), name: string(m[1])})
		}
		return nil
	})
	return found, err
}
