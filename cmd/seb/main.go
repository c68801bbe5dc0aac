// Command seb is the broker and its tools. Each subcommand has its own file; `seb help` lists them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/quiet"
)

func main() {
	quiet.Restore()
	machine.AddProcessor()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the program at once, because the default handling is restored.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:])
	os.Exit(code)
}
