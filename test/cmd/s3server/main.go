// Command install builds the S3 server that the tests use, if it is not there yet.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/sebbroker/seb/test/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if !testenv.S3Installed() {
		fmt.Fprintf(os.Stderr, "building the S3 server for tests (versitygw %s): once, and it takes minutes\n", testenv.S3Version)
	}
	path, err := testenv.S3Binary(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
	fmt.Println(path)
}
