package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	toolArg = "toolexec" // go test -toolexec "campaign toolexec"
	module  = "github.com/sebbroker/seb"
	// counted is what the go command adds for each package whose coverage the fuzzer is to see.
	counted = "-d=libfuzzer"
)

// tool runs a tool of the go command. The compiler counts coverage in our packages only.
func tool(args []string) (exit int) {
	if filepath.Base(args[0]) == "compile" {
		if len(args) == 2 && args[1] == "-V=full" {
			return toolVersion(args)
		}
		if !ours(args) {
			args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == counted })
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return exitCode(cmd.Run())
}

// toolVersion answers the go command's question which compiler this is, of which what it has built depends.
func toolVersion(args []string) int {
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		return exitCode(err)
	}
	fmt.Printf("%s own-coverage-1\n", bytes.TrimSpace(out))
	return 0
}

// ours says whether a command line of the compiler is for a package of this module.
func ours(args []string) bool {
	i := slices.Index(args, "-p")
	if i < 0 || i+1 == len(args) {
		return false
	}
	path := strings.TrimSuffix(args[i+1], "_test")
	return path == module || strings.HasPrefix(path, module+"/")
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "campaign:", err)
	return 1
}
