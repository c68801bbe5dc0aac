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

// benchProgram is the program that `seb bench` runs. It is a separate module, so that Seb does not
// depend on clients of other brokers.
const benchProgram = "seb-bench"

func newBench() *cobra.Command {
	return &cobra.Command{
		Use:   "bench [command]",
		Short: "Measure the latency of Seb and other brokers, using the program seb-bench",
		Long: `Runs seb-bench, from the folder of this program or from $PATH, with the same arguments. It measures the latency of Seb,
Kafka, NATS, Redis and RabbitMQ under the same load, with a fixed schedule. To build it, run
"go build -C bench -o ../bin/seb-bench ./cmd/seb-bench" in Seb's sources.`,
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
			// exec replaces this program, so that seb-bench handles signals, the terminal and the
			// exit code itself.
			err = syscall.Exec(path, append([]string{benchProgram}, args...), os.Environ())
			return fmt.Errorf("start %s: %w", path, err)
		},
	}
}

// findBench looks in the folder of the running program, then in $PATH.
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
		return "", fmt.Errorf("no %s in %s$PATH; build it in Seb's sources: "+
			"\"go build -C bench -o ../bin/seb-bench ./cmd/seb-bench\"", benchProgram, tried)
	}
	return path, nil
}
