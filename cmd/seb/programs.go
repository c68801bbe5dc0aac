package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// other is a program that a command of Seb runs. It is a separate module, so that Seb does not contain its
// libraries.
type other struct {
	name   string
	module string // its folder in Seb's sources
}

var (
	benchProgram   = other{"seb-bench", "bench"}
	migrateProgram = other{"seb-migrate", "migrate"}
)

func (o other) build() string {
	return fmt.Sprintf("go build -C %s -o ../bin/%s ./cmd/%s", o.module, o.name, o.name)
}

// command sets what the command of a program does, and completes its help.
func (o other) command(cmd *cobra.Command) *cobra.Command {
	cmd.Long = fmt.Sprintf("Runs %s, from the folder of this program or from $PATH, with the same arguments. %s To build it, run\n%q in Seb's sources.",
		o.name, cmd.Long, o.build())
	cmd.DisableFlagParsing = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := o.find()
		if err != nil && (len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h") {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nExamples:\n%s\n\nNot built yet: %v\n", cmd.Long, cmd.Example, err)
			return nil
		}
		if err != nil {
			return err
		}
		// exec replaces this program, so that the other one handles signals, the terminal and the exit
		// code itself.
		err = syscall.Exec(path, append([]string{o.name}, args...), os.Environ())
		return fmt.Errorf("start %s: %w", path, err)
	}
	return cmd
}

// find looks in the folder of the running program, then in $PATH.
func (o other) find() (string, error) {
	var tried string
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), o.name)
		_, err := os.Stat(beside)
		if err == nil {
			return beside, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		tried = filepath.Dir(own) + " and "
	}
	path, err := exec.LookPath(o.name)
	if err != nil {
		return "", usageError{fmt.Errorf("no %s in %s$PATH; build it in Seb's sources: %q", o.name, tried, o.build())}
	}
	return path, nil
}

func newBench() *cobra.Command {
	return benchProgram.command(&cobra.Command{
		Use:   "bench [command]",
		Short: "Measure the latency of Seb and other brokers, using the program seb-bench",
		Long: `It measures the
latency of Seb, Kafka, NATS, Redis and RabbitMQ under the same load, with a fixed schedule.`,
		Example: "  seb bench run article-b --target seb\n  seb bench help",
	})
}

func newMigrate() *cobra.Command {
	return migrateProgram.command(&cobra.Command{
		Use:   "migrate [command]",
		Short: "Compare Seb with a Kafka cluster, using the program seb-migrate",
		Long: `It compares
the records and groups of two clusters that speak the Kafka protocol: exit code 0 equal, 1 different, 2 not compared.`,
		Example: "  seb migrate check --from localhost:9092 --to kafka:9092\n  seb migrate check --help",
	})
}
