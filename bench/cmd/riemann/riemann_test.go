package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets this program be the bare server.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "-bare" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := serveBare(ctx, os.Args[2])
		stop()
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestReport makes a short run with the built program, and its report with a picture.
func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "riemann.md")
	o := options{rounds: 1, time: 2 * slice, latency: 2 * slice / 10, connections: 2, window: 10, disk: t.TempDir(), report: file, version: "v1"}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"v1, ", "| Seb, bucket on disk, fsync ", "| bare server ", "| events stored / acknowledged ", "(riemann.svg)", "| `--riemann-ack received` "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report does not contain %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "NaN") {
		t.Errorf("a figure is missing:\n%s", text)
	}
	picture, err := os.Open(strings.TrimSuffix(file, ".md") + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	lines := 0
	for d := xml.NewDecoder(picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 6 {
		t.Errorf("the picture has %d lines, want 6", lines)
	}
}
