package main

import (
	"bytes"
	"context"
)

// Main is main, for processes of the tests.
var Main = main

// Run runs a command in this process and returns its exit code.
func Run(args []string, in []byte, out, errs *bytes.Buffer) int {
	root, began := newRoot()
	root.SetArgs(append([]string{}, args...)) // cobra takes nil as the arguments of this process
	root.SetIn(bytes.NewReader(in))
	root.SetOut(out)
	root.SetErr(errs)
	return runRoot(context.Background(), root, began)
}
