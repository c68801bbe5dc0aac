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

// benchProgram is what `seb bench` runs. It is a module of its own, so that no client of another broker is in Seb.
const benchProgram = "seb-bench"

func newBench() *cobra.Command {
	return &cobra.Command{
		Use:   "bench [command]",
		Short: "Measure the latency of Seb and other brokers, with the program seb-bench",
		Long: `Runs seb-bench, found beside this program or in $PATH, with the same arguments. It measures the latency of Seb, Kafka, NATS, Redis
and RabbitMQ under the same load, by a fixed schedule. In Seb's sources,
"go build -C bench -o ../bin/seb-bench ./cmd/seb-bench" builds it.`,
		Example:            "  seb bench run article-b --target seb\n  seb bench help",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := findBench()
			if err != nil && (len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h") {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nExamples:\n%s\n\nNot built yet: %v\n", cmd.Long, cmd.Example, err)
				return nil
			}
			if err != nil {
				return err
			}
			// In place of this program: signals, the terminal and the exit code are its own.
			err = syscall.Exec(path, append([]string{benchProgram}, args...), os.Environ())
			return fmt.Errorf("start %s: %w", path, err)
		},
	}
}

// findBench looks beside the running program, then in $PATH.
func findBench() (string, error) {
	var tried string
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), benchProgram)
		_, err := os.Stat(beside)
		if err == nil {
			return beside, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		tried = filepath.Dir(own) + " and "
	}
	path, err := exec.LookPath(benchProgram)
	if err != nil {
		return "", fmt.Errorf("there is no %s in %s$PATH: build it in Seb's sources with "+
			"\"go build -C bench -o ../bin/seb-bench ./cmd/seb-bench\"", benchProgram, tried)
	}
	return path, nil
}
