package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	keptBytes   = 2 << 10  // the largest input that is kept
	keptTargets = 12 << 10 // and the most of a target
)

// keepAll adds to each target's testdata/fuzz those of the engine's finds that reach code which nothing there reaches, the
// smallest first.
func keepAll(ctx context.Context, targets []target) error {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "campaign-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, t := range targets {
		k := keeper{target: t, work: filepath.Join(work, strings.ReplaceAll(t.String(), "/", "-"))}
		k.found = filepath.Join(strings.TrimSpace(string(cache)), "fuzz", filepath.FromSlash(module), filepath.FromSlash(t.dir), t.name)
		if err := k.keep(ctx); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

type keeper struct {
	target
	found string // folder of what the engine has found
	work  string // a folder for running single inputs
	seen  map[string]bool
}

func (k *keeper) keep(ctx context.Context) error {
	candidates, err := inputs(k.found)
	if err != nil || len(candidates) == 0 {
		return err
	}
	if err := k.prepare(ctx); err != nil {
		return err
	}
	own := filepath.Join(filepath.FromSlash(k.dir), "testdata", "fuzz", k.name)
	there, err := inputs(own)
	if err != nil {
		return err
	}
	size := int64(0)
	k.seen = map[string]bool{}
	if _, err := k.covers(ctx, "seed"); err != nil {
		return err
	}
	for _, in := range there {
		size += in.size
		if _, err := k.try(ctx, filepath.Join(own, in.name)); err != nil {
			return err
		}
	}
	kept := 0
	for _, in := range candidates {
		if in.size > keptBytes || size+in.size > keptTargets {
			continue
		}
		more, err := k.try(ctx, filepath.Join(k.found, in.name))
		if err != nil {
			return err
		}
		if !more {
			continue
		}
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(k.found, in.name), filepath.Join(own, in.name)); err != nil {
			return err
		}
		kept++
		size += in.size
	}
	fmt.Printf("%-44s %5d found, %3d kept, %6d bytes in all\n", k.target, len(candidates), kept, size)
	return nil
}

// prepare builds the package's tests with coverage of the module, and gives them their testdata but for the corpora.
func (k *keeper) prepare(ctx context.Context) error {
	data := filepath.Join(k.work, "testdata")
	if err := os.MkdirAll(filepath.Join(data, "fuzz", k.name), 0o755); err != nil {
		return err
	}
	from, err := filepath.Abs(filepath.Join(filepath.FromSlash(k.dir), "testdata"))
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if e.Name() != "fuzz" {
			if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(data, e.Name())); err != nil {
				return err
			}
		}
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-cover", "-coverpkg", module+"/...", "-o", filepath.Join(k.work, "tests"), "./"+filepath.FromSlash(k.dir))
	build.Stderr = os.Stderr
	return build.Run()
}

// try runs one input, and reports whether it covers something new.
func (k *keeper) try(ctx context.Context, file string) (more bool, err error) {
	place := filepath.Join(k.work, "testdata", "fuzz", k.name, "one")
	if err := copyFile(file, place); err != nil {
		return false, err
	}
	return k.covers(ctx, "one")
}

// covers runs the inputs of that name and reports whether they cover something that was not covered before.
func (k *keeper) covers(ctx context.Context, name string) (more bool, err error) {
	profile := filepath.Join(k.work, "profile")
	cmd := exec.CommandContext(ctx, filepath.Join(k.work, "tests"), "-test.run", "^"+k.name+"$/^"+name, "-test.coverprofile", profile)
	cmd.Dir = k.work
	if out, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("%w: %s", err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		block, hit := strings.CutSuffix(lines.Text(), " 1")
		if hit && !k.seen[block] {
			k.seen[block], more = true, true
		}
	}
	return more, nil
}

type input struct {
	name string
	size int64
}

// inputs are the files of a folder, the smallest first; none if it is not there.
func inputs(dir string) (list []input, err error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, input{e.Name(), info.Size()})
	}
	slices.SortFunc(list, func(a, b input) int { return cmp.Or(cmp.Compare(a.size, b.size), strings.Compare(a.name, b.name)) })
	return list, err
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
