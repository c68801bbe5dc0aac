package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/must"
)

// fakeBroker answers at the address in the RuntimeFile of a data folder.
type fakeBroker struct {
	*httptest.Server
	health string   // the answer to GET /healthz
	start  func()   // nil, or called before that
	got    []string // paths of the other requests and their keys, until Close
}

func newFakeBroker(t *testing.T, health string) *fakeBroker {
	b := &fakeBroker{health: health}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Authorization")
		if r.URL.Path != "/healthz" || key != "" {
			b.got = append(b.got, strings.TrimSpace(r.URL.Path+" "+key))
			_, _ = w.Write([]byte(`{"topics":[]}`))
			return
		}
		if b.start != nil {
			b.start()
		}
		_, _ = w.Write([]byte(b.health))
	}))
	t.Cleanup(b.Close)
	return b
}

// leave writes the RuntimeFile of a run.
func (b *fakeBroker) leave(t *testing.T, dir, run string) {
	t.Helper()
	writeFile(t, dir, server.RuntimeFile, fmt.Sprintf(`{"address": %q, "api_key": "key-of-the-data-folder", "run": %q}`, b.URL, run))
}

// TestALeftoverAddress: no command sends a request or a key to another broker at the address of the one
// that ran with the data folder.
func TestALeftoverAddress(t *testing.T) {
	for health, want := range map[string]string{
		`{"status":"ok","run":"other"}`: "another one answers at ",
		`{"status":"ok"}`:               "another one answers at ", // of an earlier version
		`<html>`:                        "invalid character '<'",
	} {
		b, dir := newFakeBroker(t, health), t.TempDir()
		b.leave(t, dir, "killed")
		for name, args := range remoteCommands(t) {
			var out, errs bytes.Buffer
			if code := Run(append(args, "--data-dir", dir), nil, &out, &errs); code != exitError || !strings.Contains(errs.String(), want) {
				t.Errorf("seb %s: exit code %d, %s, want %q", name, code, &errs, want)
			}
		}
		b.Close()
		if len(b.got) > 0 {
			t.Errorf("requests to a server that answers %s: %q", health, b.got)
		}
	}
}

// TestTheRunOfTheDataFolder: a command accepts the broker that its data folder names, and an address on the
// command line, but another broker does not get the key of the data folder.
func TestTheRunOfTheDataFolder(t *testing.T) {
	for name, c := range map[string]struct {
		was  string // run in the data folder
		now  string // run there, before the broker answers
		args []string
		want string // requests
	}{
		"the same":                    {was: "this", want: "/topics Bearer key-of-the-data-folder"},
		"of an earlier version":       {was: "", want: "/topics Bearer key-of-the-data-folder"},
		"started meanwhile":           {was: "killed", now: "this", want: "/topics Bearer key-of-the-data-folder"},
		"other, but named":            {was: "killed", args: []string{"--address", "$"}, want: "/topics"},
		"other, but named with a key": {was: "killed", args: []string{"--address", "$", "--api-key", "key-of-the-other"}, want: "/topics Bearer key-of-the-other"},
		"the same, and named":         {was: "this", args: []string{"--address", "$"}, want: "/topics Bearer key-of-the-data-folder"},
	} {
		t.Run(name, func(t *testing.T) {
			b, dir := newFakeBroker(t, `{"status":"ok","run":"this"}`), t.TempDir()
			b.leave(t, dir, c.was)
			if c.now != "" {
				b.start = func() { b.leave(t, dir, c.now) }
			}
			args := []string{"topic", "list", "--data-dir", dir}
			for _, a := range c.args {
				args = append(args, strings.ReplaceAll(a, "$", b.URL))
			}
			var out, errs bytes.Buffer
			must.Equalf(t, Run(args, nil, &out, &errs), exitOK, "exit code, after %v", &errs)
			b.Close()
			must.EqualSlicesf(t, slices.Compact(b.got), []string{c.want}, "requests")
		})
	}
}
