package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/test/must"
)

// remoteCommands returns the commands that connect to a broker, with arguments that each accepts.
func remoteCommands(t *testing.T) map[string][]string {
	file := testFile(t, "expr: x")
	required := map[string][]string{
		"acl allow": {"User:x", "read", "topic", "x"}, "acl deny": {"User:x", "read", "topic", "x"}, "acl remove": {"--principal", "User:x", "--yes"},
		"event": {"x", "x"}, "export": {"--topic", "x", "--to", t.TempDir()}, "group reset": {"x", "x", "--to", "earliest"},
		"import": {"--topic", "x", "--from", t.TempDir()}, "quota set": {"x", "--requests", "1"}, "topic trim": {"x", "--before", "1"},
		"trigger dry-run": {"x"}, "trigger apply": {"-f", file}, "token create": {"x", "--read", "x"}, "queue work": {"x", "true"},
	}
	all := map[string][]string{}
	argument := regexp.MustCompile(` [A-Z|]+`)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "seb ")
		if clientFlags(c).HasFlags() && !c.HasSubCommands() && c.Annotations[commandAway] == "" {
			args, found := required[name]
			if !found {
				use, _, _ := strings.Cut(c.Use, "[")
				for range argument.FindAllString(use, -1) {
					args = append(args, "x")
				}
			}
			all[name] = append(strings.Fields(name), args...)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root, _ := newRoot()
	walk(root)
	return all
}

// TestADataDirectoryNamesItsBroker: without a broker no command connects to another one, with the
// key of the environment.
func TestADataDirectoryNamesItsBroker(t *testing.T) {
	requests := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	defer other.Close()
	dir := filepath.Join(t.TempDir(), "it's")
	commands := remoteCommands(t)
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Run(args, nil, &out, &errs)
		return code, errs.String()
	}
	for name, args := range commands {
		for _, in := range []string{"flag", "environment"} {
			t.Run(name+" "+in, func(t *testing.T) {
				t.Setenv("SEB_API_KEY", "other")
				args := args
				if in == "flag" {
					args = append(args, "--data-dir", dir)
				} else {
					t.Setenv("SEB_DATA_DIR", dir)
				}
				code, text := run(args...)
				if code != exitError || !strings.Contains(text, "no broker runs with data directory "+dir+"; start one with `seb serve --data-dir '") {
					t.Errorf("seb %s: exit code %d, %s", strings.Join(args, " "), code, text)
				}
			})
		}
		t.Run(name+" beside another address", func(t *testing.T) {
			t.Setenv("SEB_ADDRESS", other.URL)
			code, text := run(append(args, "--data-dir", dir)...)
			if code != exitUsage || !strings.Contains(text, "--data-dir: $SEB_ADDRESS names another broker, "+other.URL) {
				t.Errorf("seb %s: exit code %d, %s", strings.Join(args, " "), code, text)
			}
		})
	}
	if len(commands) < 50 || requests > 0 {
		t.Errorf("%d requests of the commands %v to another broker", requests, maps.Keys(commands))
	}
}

// TestNoFlagIsIgnored: a flag that cannot have an effect is an error.
func TestNoFlagIsIgnored(t *testing.T) {
	key := testFile(t, "of-the-file-0123456789\n")
	for want, args := range map[string][]string{
		"--verify: has no effect with --list":                                  {"backup", "--to", "b", "--list", "--verify"},
		"--keep: has no effect with --list":                                    {"backup", "--to", "b", "--list", "--keep", "1"},
		"--quiet-time: has no effect without --repair":                         {"fsck", "--quiet-time", "1s"},
		"--dump-record-bytes: has no effect without --records":                 {"inspect", "f", "-b", "1"},
		"--dump-record-bytes: -1, want at least 0":                             {"inspect", "f", "-a", "-b", "-1"},
		"--wait: has no effect without --min-offset":                           {"key", "get", "t", "k", "--wait", "1s"},
		"--partition: has no effect without --min-offset":                      {"key", "list", "t", "-p", "1"},
		"--min-offset: -2, want at least 0":                                    {"key", "get", "t", "k", "--min-offset", "-2"},
		"--partition: -2, want at least 0":                                     {"produce", "t", "-p", "-2"},
		"--count: -1, want at least 0":                                         {"consume", "t", "-n", "-1"},
		"--bucket: has no effect with --remote-broker-address":                 {"benchmark", "--remote-broker-address", "http://h:1", "--bucket", "mem:"},
		"--remote-broker-api-key: has no effect without --remote-":             {"benchmark", "--remote-broker-api-key", "k"},
		"--memory-limit: has no effect with --bare":                            {"benchmark-read", "--bare", "file", "--memory-limit", "1GiB"},
		"--address: has no effect, because seb secrets init does not":          {"secrets", "init", "f", "--address", "http://h:1"},
		"--data-dir: has no effect, because seb trigger secret does not":       {"trigger", "secret", "--data-dir", "d"},
		"--ca-file: has no effect without https://, the address is http://h:1": {"topic", "list", "--address", "http://h:1", "--ca-file", key},
		"--api-key-file: cannot be combined with --api-key":                    {"topic", "list", "--api-key", "k", "--api-key-file", key},
	} {
		var out, errs bytes.Buffer
		if code := Run(args, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("seb %s: exit code %d, %s, want %s", strings.Join(args, " "), code, errs.String(), want)
		}
	}
}

// TestTheCommandLineTakesPrecedence over another setting of the same thing in the environment.
func TestTheCommandLineTakesPrecedence(t *testing.T) {
	var got string
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = w.Write([]byte(`{"topics":[]}`))
	}))
	defer broker.Close()
	file := testFile(t, "of-the-file-0123456789\n")
	for _, c := range []struct{ name, value, flag, given, want string }{
		{"SEB_API_KEY", "of-the-environment", "--api-key-file", file, "of-the-file-0123456789"},
		{"SEB_API_KEY_FILE", file, "--api-key", "of-the-line-0123456789", "of-the-line-0123456789"},
		{"SEB_API_KEY_FILE", file, "--data-dir", t.TempDir(), "of-the-file-0123456789"},
		{"SEB_DATA_DIR", "none", "--api-key", "of-the-line-0123456789", "of-the-line-0123456789"},
	} {
		t.Run(c.flag+" and "+c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			var out, errs bytes.Buffer
			must.Equalf(t, Run([]string{"topic", "list", "--address", broker.URL, c.flag, c.given}, nil, &out, &errs), exitOK, "exit code, after %v", &errs)
			must.Equalf(t, got, c.want, "key")
		})
	}
}
