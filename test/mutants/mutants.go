// Package mutants holds bugs that brokers of this kind were shipped with, each as a patch of the
// production code. The tests build a simulator with one patch at a time and require that an
// invariant breaks: they test the tests.
//
// A patch begins with a text: the bug, where it was seen (if known), and a line "Seeds:" with the
// kinds of seeds that must find it (Kinds). "losses from 140" skips the runs before number 140,
// which are known not to find it. A unified diff of the production code follows. Its line numbers
// are ignored: the old lines of a hunk, including context, must be in the file exactly once.
package mutants

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.patch
var patches embed.FS

// Mutant is one patch.
type Mutant struct {
	Name  string  // of the file, without .patch
	Seeds []Seeds // each must find it
	hunks []hunk
}

// Seeds are the runs of a kind, starting with number From.
type Seeds struct {
	Kind string
	From uint64
}

// String returns the input of ParseSeeds.
func (s Seeds) String() string {
	if s.From == 0 {
		return s.Kind
	}
	return fmt.Sprintf("%s from %d", s.Kind, s.From)
}

// ParseSeeds parses the name of a kind, optionally followed by "from N".
func ParseSeeds(text string) (s Seeds, err error) {
	name, from, given := strings.Cut(text, " from ")
	if given {
		if s.From, err = strconv.ParseUint(from, 10, 64); err != nil {
			return s, fmt.Errorf("seeds %q: %w", text, err)
		}
	}
	s.Kind = name
	if k := kind(s.Kind); k == nil || s.From >= k.N {
		return s, fmt.Errorf("seeds %q: no such runs", text)
	}
	return s, nil
}

// hunk is one change of one file.
type hunk struct {
	file     string
	line     int // of the patch, from 1
	old, new string
}

// All returns the mutants, ordered by name.
func All() ([]*Mutant, error) {
	names, err := fs.Glob(patches, "*.patch")
	if err != nil {
		return nil, err
	}
	all := make([]*Mutant, 0, len(names))
	for _, name := range names {
		text, err := patches.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(name, ".patch"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Named returns one mutant.
func Named(name string) (*Mutant, error) {
	text, err := patches.ReadFile(name + ".patch")
	if err != nil {
		return nil, fmt.Errorf("no mutant has the name %q: %w", name, err)
	}
	return parse(name, string(text))
}

func parse(name, text string) (*Mutant, error) {
	m := &Mutant{Name: name}
	file := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		head := file == ""
		switch {
		case head && strings.HasPrefix(line, "Seeds: "):
			for text := range strings.SplitSeq(strings.TrimPrefix(line, "Seeds: "), ", ") {
				seeds, err := ParseSeeds(text)
				if err != nil {
					return nil, fmt.Errorf("%s.patch:%d: %w", name, i+1, err)
				}
				m.Seeds = append(m.Seeds, seeds)
			}
		case strings.HasPrefix(line, "--- a/"):
			file = strings.TrimPrefix(line, "--- a/")
		case head, strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@ "):
			m.hunks = append(m.hunks, hunk{file: file, line: i + 1})
		case len(m.hunks) == 0 || m.hunks[len(m.hunks)-1].file != file:
			return nil, fmt.Errorf("%s.patch:%d: a change without a line @@", name, i+1)
		default:
			if !m.hunks[len(m.hunks)-1].add(line) {
				return nil, fmt.Errorf("%s.patch:%d: %q is not a line of a unified diff", name, i+1, line)
			}
		}
	}
	if len(m.Seeds) == 0 || len(m.hunks) == 0 {
		return nil, fmt.Errorf("%s.patch: want a line \"Seeds: \" and a change", name)
	}
	return m, nil
}

// add adds one line of a hunk. An empty line is an empty line of context, because editors remove
// its blank.
func (h *hunk) add(line string) bool {
	if line == "" {
		line = " "
	}
	kind, text := line[0], line[1:]+"\n"
	if kind == ' ' || kind == '-' {
		h.old += text
	}
	if kind == ' ' || kind == '+' {
		h.new += text
	}
	return strings.IndexByte(" +-", kind) >= 0
}

// Apply returns the files that the mutant changes, with the change, by their names below root.
func (m *Mutant) Apply(root string) (map[string]string, error) {
	files := make(map[string]string)
	for _, h := range m.hunks {
		text, changed := files[h.file]
		if !changed {
			b, err := os.ReadFile(filepath.Join(root, h.file))
			if err != nil {
				return nil, fmt.Errorf("%s.patch no longer applies: %w", m.Name, err)
			}
			text = string(b)
		}
		text = "\n" + text
		old := "\n" + h.old
		at := strings.Index(text, old)
		fault := ""
		switch {
		case at < 0:
			fault = "does not have these lines"
		case strings.LastIndex(text, old) != at:
			fault = "has these lines more than once"
		}
		if fault != "" {
			return nil, fmt.Errorf("%s.patch:%d no longer applies: %s %s:\n%s", m.Name, h.line, h.file, fault, h.old)
		}
		files[h.file] = text[1:at+1] + h.new + text[at+len(old):]
	}
	return files, nil
}

// Overlay writes the files for `go build -overlay` of the module below root with the mutant into
// dir. It returns the path of the overlay.
func (m *Mutant) Overlay(root, dir string) (string, error) {
	files, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	return writeOverlay(root, dir, m.Name, files)
}

func writeOverlay(root, dir, overlay string, files map[string]string) (string, error) {
	replace := make(map[string]string)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, overlay+"-"+strconv.Itoa(i)+".go")
		if err := os.WriteFile(to, []byte(files[name]), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, overlay+".json")
	return path, os.WriteFile(path, b, 0o600)
}
