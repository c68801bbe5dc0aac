package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/record"
)

// run runs the program and returns the exit code.
func run(ctx context.Context, args []string) int {
	root, began := newRoot()
	root.SetArgs(args)
	return runRoot(ctx, root, began)
}

// runRoot runs the command of root's arguments and returns the exit code.
func runRoot(ctx context.Context, root *cobra.Command, began *bool) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !*began {
		// Errors of cobra before a command starts are errors in the command line.
		err = usageError{err}
	}
	if !errors.As(err, &loggedError{}) {
		fmt.Fprintf(harmless(root.ErrOrStderr()), "%s: %s\n", cmd.CommandPath(), forPeople(cmd, withAddress(cmd.Context(), err)))
	}
	return exitCode(err)
}

// newRoot builds the tree of commands; began reports whether a command was started.
func newRoot() (root *cobra.Command, began *bool) {
	began = new(bool)
	root = &cobra.Command{
		Use:   "seb",
		Short: "An event broker whose only durable state is a bucket",
		Long: `Seb is an event broker whose only durable state is a bucket: a folder on disk or an S3-compatible object store.

  seb serve                       start a broker: records in ./seb-bucket
  echo hello | seb produce demo   send a record
  seb consume demo                read it

Every flag can also be set in the environment as SEB_ and its name: SEB_BUCKET, SEB_HTTP_PORT, SEB_API_KEY ...`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*began = true
			if cmd.Name() != "serve" { // serve has a banner, and logs the variables
				cmd.Root().SetOut(harmless(cmd.OutOrStdout()))
				for _, w := range unknownVariables(cmd.Root(), os.Environ()) {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
				}
			}
			return checkFlags(cmd)
		},
	}
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"broker", "Broker:", []*cobra.Command{newServe(), newHealth(), newStats(), newLatency(), newCost(), newDoctor(), newCheckStore(), newCluster(), newUpgrade(), newTime()}},
		{"records", "Records:", []*cobra.Command{newProduce(), newConsume(), newTopic(), newQueue(), newGroup(), newTransaction(), newKey(), newImport(), newExport(), newMigrate()}},
		{"events", "Events and triggers:", []*cobra.Command{newEvent(), newTrigger(), newEntity(), newDrip(), newRiemann()}},
		{"access", "Access:", []*cobra.Command{newToken(), newACL(), newQuota(), newAudit(), newSecrets()}},
		{"repair", "Buckets without a broker:", []*cobra.Command{newBackup(), newRestore(), newCopy(), newFsck(), newRecover(), newInspect()}},
		{"measure", "Measurements:", []*cobra.Command{newBench(), newBenchmark(), newBenchmarkRead()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newExitCodes())
	root.SetFlagErrorFunc(flagError)
	// A custom flag, because the template of cobra's flag links text/template: 10 MB more.
	asked := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*asked {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
		return err
	}
	return root, began
}

// unknownVariables returns warnings for environment variables that look like settings of Seb but
// are not, each with the nearest name.
func unknownVariables(root *cobra.Command, environ []string) (warnings []string) {
	known := map[string]bool{}
	var learn func(*cobra.Command)
	learn = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[config.EnvName(f.Name)] = true })
		}
		for _, sub := range c.Commands() {
			learn(sub)
		}
	}
	learn(root)
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SEB_") || known[name] || ownVariable(name) {
			continue
		}
		w := "$" + name + " is not a setting of Seb"
		if near := driplang.Suggest(name, slices.Collect(maps.Keys(known))); near != "" {
			w += "; did you mean $" + near + "?"
		}
		warnings = append(warnings, w)
	}
	return warnings
}

// ownVariable reports whether a program of `seb queue work` gets the variable, or seb-bench or a build with
// failpoints reads it. Other builds do not contain those names.
func ownVariable(name string) bool {
	return strings.HasPrefix(name, "SEB_BENCH_") || strings.HasPrefix(name, messagePrefix) || failpoint.Enabled && (name == "SEB_FAILPOINTS" || strings.HasPrefix(name, "SEB_HURRY"))
}

// version is set by the linker (Makefile); a plain `go build` or `go install` leaves it empty.
var version string

// buildInfo describes the build.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"` // built from a modified tree
	Go      string `json:"go"`
}

func (b buildInfo) String() string {
	commit := b.Commit
	if b.Dirty {
		commit += " with changes"
	}
	return fmt.Sprintf("seb %s (commit %s, %s, %s/%s)", b.Version, commit, b.Go, runtime.GOOS, runtime.GOARCH)
}

func build() buildInfo {
	b := buildInfo{Version: version, Commit: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
		b.Version = cmp.Or(b.Version, info.Main.Version)
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(build())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// The exit codes; newExitCodes documents them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitFenced  = 3
	exitStore   = 4
	exitCorrupt = 5
	exitUnknown = 6
	exitStopped = 130
)

func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Describe the exit codes",
		Long: `0  success; for serve: stopped as requested, everything acknowledged is stored
1  an error; the line on stderr says what to do. Also: the store does not answer, or an fsync failed: start again
2  the command line or a setting is invalid, or the bucket needs a newer Seb
3  serve: another broker has taken over this bucket
4  serve, check-store: the store fails a check that Seb requires, or denies access
5  stored data is corrupt, or a part of the log is missing: nothing was deleted or skipped
6  produce, event, topic, trigger: no answer in time: the data may appear once, or never
130  interrupted (not serve, consume --follow and queue work, for which an interrupt is the normal end)

The first three are those that shells and service managers expect. A service manager should restart serve after 1. It must not
restart after 2 to 5, which need an operator (systemd: Restart=on-failure, RestartPreventExitStatus=2 3 4 5).`,
	}
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	var faults config.Faults
	var check *objstore.CheckError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &faults), errors.Is(err, state.ErrNewer), errors.Is(err, syscall.ENOTDIR):
		return exitUsage
	case errors.Is(err, state.ErrFenced):
		return exitFenced
	case errors.Is(err, objstore.ErrBroken), errors.As(err, &check) && errors.Is(err, objstore.ErrNoVerdict):
		return exitError // a restart may succeed
	case errors.As(err, &check), errors.Is(err, objstore.ErrRefused) && !errors.Is(err, objstore.ErrDamaged):
		return exitStore
	case errors.Is(err, objstore.ErrDamaged), errors.Is(err, core.ErrForeignBucket), errors.Is(err, state.ErrCorrupt), errors.Is(err, record.ErrCorrupt), errors.Is(err, client.ErrCorrupt):
		return exitCorrupt
	case errors.Is(err, client.ErrOutcomeUnknown), errors.Is(err, state.ErrOutcomeUnknown):
		return exitUnknown
	case errors.Is(err, context.Canceled):
		return exitStopped
	}
	return exitError
}

// oneLine formats an error of a command for a person: one line with the cause and, if known, a hint.
func oneLine(cmd *cobra.Command, err error) string {
	if newer, ok := errors.AsType[*state.NewerError](err); ok {
		return newer.Error() // the context of the error does not matter
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if h := hint(cmd, err); h != "" {
		text += ": " + h
	}
	return text
}

// forPeople formats an error in one line, or several invalid settings as a list.
func forPeople(cmd *cobra.Command, err error) string {
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) < 2 {
		return oneLine(cmd, err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d settings are invalid (see `%s --help`)", len(faults), cmd.CommandPath())
	for _, f := range faults {
		text.WriteString("\n  " + f.Error())
	}
	return text.String()
}

// hint returns the action that resolves an error of a command; "" if it is unknown.
func hint(cmd *cobra.Command, err error) string {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return "see `" + cmd.CommandPath() + " --help`"
	case errors.Is(err, client.ErrUnauthorized):
		return "set the broker's key with --api-key or $SEB_API_KEY"
	case errors.Is(err, client.ErrUnknownTopic):
		return "`seb topic list` lists the topics, `seb topic create` creates one"
	case errors.Is(err, client.ErrUnknownGroup):
		return "`seb group list` lists the groups; a group exists once it has committed an offset"
	case errors.Is(err, client.ErrKeyNotFound):
		return "`seb key list` lists the keys with a value"
	case errors.Is(err, client.ErrKeyIndexBehind):
		return "retry, or increase --wait"
	case errors.Is(err, client.ErrBelowStart):
		return "these records were removed; start with --offset earliest, or move the group with `seb group reset`"
	case errors.Is(err, objstore.ErrNoVerdict):
		return "the store did not answer; check the endpoint in --bucket, the network and the credentials"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no broker answers at this address; start one with `seb serve`, or set another address with --address"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program uses this address; choose another port"
	case errors.Is(err, state.ErrFenced):
		return "only one broker can write to a bucket; stop this one, or start it with --read-only"
	case errors.Is(err, client.ErrOutcomeUnknown):
		return "read the end of the topic before sending again"
	case errors.Is(err, fs.ErrPermission):
		return "check the permissions of this user"
	case errors.Is(err, context.DeadlineExceeded):
		return "the broker did not answer in time"
	}
	return ""
}

// counted returns a number with its noun: 1 record, 2 records.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
