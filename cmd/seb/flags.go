package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/driplang"
)

// Annotations of flags and commands. A flag that would be ignored on the command line is an error,
// because the command does something else than its reader expects. The environment may have settings
// of other commands.
const (
	flagNeeds   = "needs"     // flags, one of which must be given too
	flagNot     = "not"       // flags that must not be given too
	flagLeast   = "least"     // the smallest number
	commandAway = "no-broker" // the client flags of the command's parent have no effect
)

// needs makes flags errors without one of the others.
func needs(cmd *cobra.Command, flags []string, others ...string) {
	annotate(cmd, flags, flagNeeds, others)
}

// excludes makes flags errors together with one of the others.
func excludes(cmd *cobra.Command, flags []string, others ...string) {
	annotate(cmd, flags, flagNot, others)
}

// atLeast sets the smallest value of a number.
func atLeast(cmd *cobra.Command, flag string, least int) {
	annotate(cmd, []string{flag}, flagLeast, []string{strconv.Itoa(least)})
}

func annotate(cmd *cobra.Command, flags []string, key string, values []string) {
	for _, name := range flags {
		if err := cmd.Flags().SetAnnotation(name, key, values); err != nil {
			panic(err) // a flag without this name
		}
	}
}

// openInput opens a file that a flag or argument names; - is stdin. A file that cannot be read is an
// error in the command line.
func openInput(stdin io.Reader, flag, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, usageError{fmt.Errorf("%s: %s: a folder, want a file", flag, name)}
	}
	return f, nil
}

// flagError names the flag that an unknown flag probably means.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, f.Name)
		}
	})
	if near := driplang.Suggest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// checkFlags returns an error if the command line has a flag without an effect, or a number that is
// too small. It runs before the environment is read.
func checkFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil {
			err = checkFlag(cmd, f)
		}
	})
	return err
}

func checkFlag(cmd *cobra.Command, f *pflag.Flag) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if least := f.Annotations[flagLeast]; least != nil {
		smallest, _ := strconv.ParseInt(least[0], 10, 64)
		if n, err := strconv.ParseInt(f.Value.String(), 10, 64); err == nil && n < smallest {
			// -1 is the default that stands for no value.
			return usageError{fmt.Errorf("--%s: %d, want at least %d", f.Name, n, max(smallest, 0))}
		}
	}
	if others := f.Annotations[flagNeeds]; others != nil && !slices.ContainsFunc(others, given) {
		return usageError{fmt.Errorf("--%s: has no effect without --%s", f.Name, others[0])}
	}
	if i := slices.IndexFunc(f.Annotations[flagNot], given); i >= 0 {
		return usageError{fmt.Errorf("--%s: has no effect with --%s", f.Name, f.Annotations[flagNot][i])}
	}
	if cmd.Annotations[commandAway] != "" && cmd.InheritedFlags().Lookup(f.Name) != nil {
		return usageError{fmt.Errorf("--%s: has no effect, because %s does not connect to a broker", f.Name, cmd.CommandPath())}
	}
	return nil
}
