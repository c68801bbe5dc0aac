package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A recording is a text: a line "==== KIND CALL" and the answer, for each call.
const heading = "==== "

// Write writes a recording.
func Write(w io.Writer, answers []Answer) error {
	var b bytes.Buffer
	for _, a := range answers {
		fmt.Fprintf(&b, "%s%s %s\n", heading, a.Kind, a.Call)
		for line := range strings.Lines(a.Text) {
			fmt.Fprintf(&b, " %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Read reads a recording.
func Read(r io.Reader) ([]Answer, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var answers []Answer
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, heading); ok {
			kind, name, _ := strings.Cut(strings.TrimSuffix(title, "\n"), " ")
			answers = append(answers, Answer{Kind: kind, Call: name})
			continue
		}
		if len(answers) == 0 || line[0] != ' ' {
			return nil, fmt.Errorf("not a recording: %q", line)
		}
		answers[len(answers)-1].Text += line[1:]
	}
	return answers, nil
}

// Compare prints a unified diff of each answer that differs and a table of counts, and returns the
// number of differences. A call that is in one recording only is a difference.
func Compare(ctx context.Context, w io.Writer, base, head []Answer) (int, error) {
	type counts struct{ calls, same, differ, only int }
	table := map[string]*counts{}
	of := func(a Answer) *counts {
		if table[a.Kind] == nil {
			table[a.Kind] = &counts{}
		}
		return table[a.Kind]
	}
	was := map[string]string{}
	for _, a := range base {
		was[a.Kind+" "+a.Call] = a.Text
		of(a).calls++
	}
	different := 0
	for _, a := range head {
		name := a.Kind + " " + a.Call
		text, ok := was[name]
		delete(was, name)
		switch {
		case !ok:
			of(a).only++
			of(a).calls++
			fmt.Fprintf(w, "only in head: %s\n%s\n", name, a.Text)
		case normal(text) == normal(a.Text):
			of(a).same++
			continue
		default:
			of(a).differ++
			if err := diff(ctx, w, name, text, a.Text); err != nil {
				return different, err
			}
		}
		different++
	}
	for _, a := range base {
		if _, ok := was[a.Kind+" "+a.Call]; ok {
			of(a).only++
			different++
			fmt.Fprintf(w, "only in base: %s %s\n%s\n", a.Kind, a.Call, a.Text)
		}
	}
	fmt.Fprintln(w, "| kind | calls | same | different | in one only |\n|---|---|---|---|---|")
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		c := table[kind]
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d |\n", kind, c.calls, c.same, c.differ, c.only)
	}
	return different, nil
}

// normal is the text as a recording keeps it.
func normal(text string) string { return strings.TrimSuffix(text, "\n") }

func diff(ctx context.Context, w io.Writer, name, base, head string) error {
	dir, err := os.MkdirTemp("", "seb-diff")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for file, text := range map[string]string{"base": base, "head": head} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(normal(text)+"\n"), 0o600); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "diff", "-U", "4", "--label", "base: "+name, "--label", "head: "+name, "base", "head")
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return fmt.Errorf("diff: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", out)
	return err
}
