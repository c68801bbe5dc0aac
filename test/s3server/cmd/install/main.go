// Command install builds the S3 server that the tests use, if it is not there yet.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/sebbroker/seb/test/s3server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if !s3server.Installed() {
		fmt.Fprintf(os.Stderr, "building the S3 server for tests (versitygw %s): once, and it takes minutes\n", s3server.Version)
	}
	path, err := s3server.Binary(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
	fmt.Println(path)
}
