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

	"github.com/sebbroker/seb/test/must"
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
	must.NoError(t, o.run(t.Context()))
	text := must.Get(os.ReadFile(file))(t)
	for _, want := range []string{"v1, ", "| Seb, bucket on disk, fsync ", "| bare server ", "| events stored / acknowledged ", "(riemann.svg)", "| `--riemann-ack received` "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report does not contain %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "NaN") {
		t.Errorf("a figure is missing:\n%s", text)
	}
	picture := must.Get(os.Open(strings.TrimSuffix(file, ".md") + ".svg"))(t)
	defer picture.Close()
	lines := 0
	for d := xml.NewDecoder(picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 6 {
		t.Errorf("the picture has %d lines, want 6", lines)
	}
}

// TestFlood makes a short run with a flood. Its section replaces the old one in the report.
func TestFlood(t *testing.T) {
	file := filepath.Join(t.TempDir(), "riemann.md")
	must.NoError(t, os.WriteFile(file, []byte("# Load\n\n"+floodHeading+"\nold\n\n## More\n\nkept\n"), 0o600))
	o := options{rounds: 1, time: 2 * slice, connections: 2, rate: 2000, disk: t.TempDir(), report: file, version: "v1", flood: true}
	must.NoError(t, o.run(t.Context()))
	b := must.Get(os.ReadFile(file))(t)
	text := string(b)
	for _, want := range []string{"# Load\n\n" + floodHeading, "v1, ", "| to Seb ", "all that were sent | met", "| equal              | met", "\n## More\n\nkept\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not contain %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "old") {
		t.Errorf("a figure is missing, or the old section is there:\n%s", text)
	}
}
