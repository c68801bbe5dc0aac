package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// testKey is the API key of a testBroker.
const testKey = "k"

// testBroker is a broker with a trigger engine in this process, and a client of it.
type testBroker struct {
	*client.Client
	address string
	broker  *broker.Broker
}

func newTestBroker(t *testing.T, change ...func(*httpapi.Options)) *testBroker {
	t.Helper()
	n := must.Get(node.Open(t.Context(), node.Options{
		Store: objstore.NewMemory(), DataDir: t.TempDir(), BatchWait: node.BatchNone, NoMerge: true, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	authority := auth.New(auth.Options{Broker: n.Broker, RootKey: testKey})
	t.Cleanup(authority.Close)
	o := httpapi.Options{Auth: authority, Triggers: n.Triggers()}
	for _, f := range change {
		f(&o)
	}
	a := must.Get(httpapi.New(n.Broker, o))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := a.Server()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	address := "http://" + l.Addr().String()
	c := must.Get(client.New(address, client.Options{APIKey: testKey, RetryTime: -1}))(t)
	t.Cleanup(func() {
		c.Close()
		_ = srv.Close()
		<-done
		check.NoError(t, n.Close(context.Background()))
	})
	return &testBroker{c, address, n.Broker}
}

// ran is the result of a command.
type ran struct {
	out, err string
	fault    error
}

// execute runs a command in this process.
func execute(t *testing.T, cmd *cobra.Command, in string, args ...string) ran {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&out)
	cmd.SetErr(&stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	fault := cmd.ExecuteContext(t.Context())
	return ran{out.String(), stderr.String(), fault}
}

// execute runs a command against the broker.
func (b *testBroker) execute(t *testing.T, cmd *cobra.Command, in string, args ...string) ran {
	t.Helper()
	return execute(t, cmd, in, append([]string{"--address", b.address, "--api-key", testKey, "--data-dir", t.TempDir()}, args...)...)
}

// testFile creates a file with a text.
func testFile(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "file", text)
	return filepath.Join(dir, "file")
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
