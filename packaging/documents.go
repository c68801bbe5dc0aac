package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// documents makes the man page and the completions, by the program itself.
func (r *release) documents() error {
	dir := filepath.Join(r.work, "documents")
	if err := os.MkdirAll(filepath.Join(dir, "completions"), 0o755); err != nil {
		return err
	}
	seb := filepath.Join(r.work, "seb")
	if err := r.build(platform{runtime.GOOS, runtime.GOARCH}, r.root, "./cmd/seb", seb); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := r.output(seb, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", "seb."+shell), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	page, err := r.manPage(seb)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(page); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "seb.1.gz"), b.Bytes(), 0o644)
}

// command is a line of a help text that names a command of its own.
var command = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)  +\S`)

// manPage is the help of the program and of all its commands as one page.
func (r *release) manPage(seb string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH SEB 1 %q %q\n", r.time.Format("2006-01-02"), "seb "+r.version)
	b.WriteString(".SH NAME\nseb \\- event broker whose only durable state is a bucket in an object store\n")
	b.WriteString(".SH SYNOPSIS\n.B seb\n.I command\n[arguments]\n")
	if err := r.manCommand(&b, seb, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (r *release) manCommand(b *bytes.Buffer, seb string, path []string) error {
	help, err := r.output(seb, append(path, "--help")...)
	if err != nil {
		return err
	}
	title := "DESCRIPTION"
	if len(path) > 0 {
		title = strings.ToUpper("seb " + strings.Join(path, " "))
	}
	fmt.Fprintf(b, ".SH %q\n.nf\n", title)
	for line := range strings.Lines(help) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), `\`, `\e`)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(strings.ReplaceAll(line, "-", `\-`) + "\n")
	}
	b.WriteString(".fi\n")
	usage, _, _ := strings.Cut(help, "\nFlags:")
	for _, m := range command.FindAllStringSubmatch(usage, -1) {
		switch m[1] {
		case "help", "completion", "seb", "bench": // the help of bench is that of seb-bench
			continue
		}
		if err := r.manCommand(b, seb, append(path[:len(path):len(path)], m[1])); err != nil {
			return err
		}
	}
	return nil
}
