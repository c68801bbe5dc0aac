package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// namesFile matches the help of a flag that names a file.
var namesFile = regexp.MustCompile(`(?i)^(PEM or DER |PEM )?file\b|\ba( JSON)? file\b`)

// fileFlags returns the flags of a command that name files, those of its parents included.
func fileFlags(c *cobra.Command) (names []string) {
	for _, set := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if strings.HasPrefix(f.Value.Type(), "string") && (namesFile.MatchString(f.Usage) || strings.HasSuffix(f.Name, "-file")) {
				names = append(names, f.Name)
			}
		})
	}
	return names
}

// fileCommand is a command with a flag or argument that names a file.
type fileCommand struct {
	name string   // of the flag, with --, or of the argument
	args []string // without the file, which follows
	code int      // exit code for a file that cannot be read
}

// fileCommands returns every flag that names a file, of every command, and the arguments that do.
func fileCommands(t *testing.T) (all []fileCommand) {
	dir := t.TempDir()
	authority := testenv.NewAuthority(t)
	leaf, ca := authority.Files(t, dir, testenv.Leaf{}), authority.File(t, dir)
	broker := []string{"--bucket", "mem:", "--data-dir", filepath.Join(dir, "data"), "--http-port", "0", "--kafka-listen", ""}
	secure := []string{"--tls-cert", leaf.Cert, "--tls-key", leaf.Key, "--tls-principal-mapping", "RULE:^CN=([^,+]+).*$/$1/"}
	begin := remoteCommands(t)
	begin["serve"], begin["doctor"] = append([]string{"serve"}, broker...), append([]string{"doctor"}, broker...)
	instead := map[string][]string{"trigger dry-run": {"trigger", "dry-run"}, "event": {"event"}} // with --file
	beside := map[string][]string{                                                                // other flags that the flag needs
		"tls-cert": {"--tls-key", leaf.Key}, "tls-key": {"--tls-cert", leaf.Cert}, "tls-client-ca": secure,
		"tls-client-crl": append([]string{"--tls-client-ca", ca}, secure...), "cpuprofile": {"--batches", "1"}, "memprofile": {"--batches", "1"},
		"client-cert": {"--client-key", leaf.Key}, "client-key": {"--client-cert", leaf.Cert},
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "seb ")
		for _, flag := range fileFlags(c) {
			if !c.Runnable() || c.HasSubCommands() || clientFlags(c).Lookup(flag) != nil && begin[name] == nil {
				continue
			}
			args, found := begin[name]
			if !found {
				args = strings.Fields(name)
			}
			if flag == "file" && instead[name] != nil {
				args = instead[name]
			}
			args = append(append([]string{}, args...), beside[flag]...)
			if clientFlags(c).Lookup(flag) != nil {
				args = append(args, "--address", "https://127.0.0.1:1")
			}
			f := fileCommand{"--" + flag, append(args, "--"+flag), exitUsage}
			if name == "doctor" {
				f.code = exitError // it reports a failed check
			}
			all = append(all, f)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root, _ := newRoot()
	walk(root)
	return append(all, fileCommand{"FILE", []string{"produce", "t"}, exitUsage}, fileCommand{"EVENTS", []string{"drip", "eval", "a"}, exitUsage})
}

// restarted reports whether the unit of the package starts a broker again after an exit code.
func restarted(t *testing.T, code string) bool {
	unit := string(must.Get(os.ReadFile("../../packaging/seb.service"))(t))
	_, codes, _ := strings.Cut(unit, "\nRestartPreventExitStatus=")
	codes, _, _ = strings.Cut(codes, "\n")
	return !strings.Contains(" "+codes+" ", " "+code+" ")
}

// TestFilesThatCannotBeRead: exit code 2, after which a service manager does not start the broker again,
// and a sentence that names the flag and the file.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "zeros", "\x00\x00\x00\x00")
	contents := map[string]bool{ // flags whose files have a form that the command checks at once
		"--http-api-key-file": true, "--secrets-key-file": true, "--prices": true, "--tls-cert": true, "--tls-key": true, "--tls-client-ca": true, "--tls-client-crl": true,
		"--api-key-file": true, "--ca-file": true, "--client-cert": true, "--client-key": true,
	}
	flags := map[string]int{}
	for _, c := range fileCommands(t) {
		flags[c.name]++
		for what, file := range map[string]string{"no file": filepath.Join(dir, "none", "x"), "a folder": dir, "zeros": filepath.Join(dir, "zeros")} {
			if what != "no file" && flags[c.name] > 1 && c.name != "--file" || what == "zeros" && !contents[c.name] || what == "a folder" && c.args[1] == "apply" {
				continue // one command for the flags that many share; apply takes folders
			}
			var out, errs bytes.Buffer
			args := append(append([]string{}, c.args...), file)
			code := Run(args, nil, &out, &errs)
			text := out.String() + errs.String()
			if code != c.code || !strings.Contains(text, c.name) || !strings.Contains(text, file) {
				t.Errorf("%s: seb %s: exit code %d, want %d, %s", what, strings.Join(args, " "), code, c.code, text)
			}
		}
	}
	if len(flags) < 16 || flags["--api-key-file"] < 50 || flags["--http-api-key-file"] != 2 {
		t.Errorf("flags that name files: %v", flags)
	}
	for _, code := range []string{"2", "3", "4", "5"} {
		check.Equalf(t, restarted(t, code), false, "the unit restarts after exit code %s", code)
	}
	check.Equalf(t, restarted(t, "1"), true, "the unit restarts after exit code 1")
}

// TestUnknownFlags: the error names the help of the command, and the flag that is probably meant.
func TestUnknownFlags(t *testing.T) {
	for line, want := range map[string]string{
		"consume t --ofset 1":         "seb consume: unknown flag: --ofset; did you mean --offset?: see `seb consume --help`\n",
		"topic list --adress x":       "seb topic list: unknown flag: --adress; did you mean --address?: see `seb topic list --help`\n",
		"serve --planet x":            "seb serve: unknown flag: --planet: see `seb serve --help`\n",
		"topic delete t -z":           "seb topic delete: unknown shorthand flag: 'z' in -z: see `seb topic delete --help`\n",
		"--versoin":                   "seb: unknown flag: --versoin; did you mean --version?: see `seb --help`\n",
		"topic trim t --before x":     "see `seb topic trim --help`\n",
		"acl allow shop write orders": "see `seb acl allow --help`\n",
	} {
		var out, errs bytes.Buffer
		if code := Run(strings.Fields(line), nil, &out, &errs); code != exitUsage || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("seb %s: exit code %d, %s, want %s", line, code, errs.String(), want)
		}
	}
}

// destructive are names of commands that delete something.
var destructive = regexp.MustCompile(`^(delete|remove|rm|revoke|erase|trim|forget)$`)

// TestDestructiveCommandsHaveTheSameFlag: every command that deletes has -y, --yes.
func TestDestructiveCommandsHaveTheSameFlag(t *testing.T) {
	n := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if destructive.MatchString(c.Name()) {
			n++
			if f := c.Flags().Lookup("yes"); f == nil || f.Shorthand != "y" {
				t.Errorf("%s has no flag -y, --yes", c.CommandPath())
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root, _ := newRoot()
	walk(root)
	if n < 9 {
		t.Errorf("%d commands that delete", n)
	}
}
