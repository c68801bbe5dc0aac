package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func settings(t *testing.T, bucket string) config.Config {
	c := config.Default()
	c.Bucket, c.DataDir, c.HTTP.Port, c.Batch.WaitTime = bucket, t.TempDir(), 0, 0
	return c
}

func start(t *testing.T, c config.Config) *server.Server {
	t.Helper()
	s := must.Get(server.Start(t.Context(), c, quiet))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func connect(t *testing.T, s *server.Server) *client.Client {
	t.Helper()
	c := must.Get(client.New(s.URL(), client.Options{APIKey: s.APIKey(), RetryTime: -1}))(t)
	t.Cleanup(c.Close)
	return c
}

func produce(t *testing.T, c *client.Client) error {
	_, err := c.ProduceValues(t.Context(), "t", [][]byte{[]byte("v")}, client.ProduceOptions{})
	return err
}

func TestDiscoverFindsARunningBroker(t *testing.T) {
	cfg := settings(t, "mem:")
	check.ErrorIsf(t, check.Err(server.Discover(cfg.DataDir)), fs.ErrNotExist, "before")
	s := start(t, cfg)
	r, err := server.Discover(cfg.DataDir)
	if err != nil || r.Address != s.URL() || r.APIKey != s.APIKey() || r.PID != os.Getpid() {
		t.Errorf("%+v, %v", r, err)
	}
	check.NoError(t, produce(t, connect(t, s)))
	for range 2 {
		check.NoError(t, s.Close(t.Context()))
	}
	r, err = server.Discover(cfg.DataDir)
	if err != nil || r.Address != "" || r.APIKey != s.APIKey() {
		t.Errorf("after: %+v, %v", r, err)
	}
	check.Equalf(t, start(t, cfg).APIKey(), s.APIKey(), "the generated key has changed")
}

func TestDamagedRuntimeFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, server.RuntimeFile), []byte("{"), 0o600))
	check.ErrorContains(t, check.Err(server.Discover(dir)), server.RuntimeFile)
}

func TestCloseEndsLongPolls(t *testing.T) {
	s := start(t, settings(t, "mem:"))
	c := connect(t, s)
	must.NoError(t, produce(t, c))
	got := make(chan error)
	go func() {
		req, err := http.NewRequest(http.MethodGet, s.URL()+"/records?topic-name=t&offset=1&timeout=5m", nil)
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+s.APIKey())
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(req); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				err = errors.Join(err, resp.Body.Close())
			}
		}
		got <- err
	}()
	waiting := func() bool {
		req := must.Get(http.NewRequest(http.MethodGet, s.URL()+"/metrics", nil))(t)
		req.Header.Set("Authorization", "Bearer "+s.APIKey())
		resp := must.Get(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		b := must.Get(io.ReadAll(resp.Body))(t)
		return strings.Contains(string(b), "seb_broker_waiting_fetches 1\n")
	}
	for !waiting() {
		select {
		case err := <-got:
			t.Fatalf("the poll did not wait: %v", err)
		default:
		}
	}
	check.NoError(t, s.Close(t.Context()))
	check.NoErrorf(t, <-got, "the poll was cut")
	http.DefaultClient.CloseIdleConnections()
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	check.NoErrorf(t, server.Run(ctx, settings(t, "mem:"), quiet, func(s *server.Server) {
		check.NoError(t, produce(t, connect(t, s)))
		cancel()
	}), "canceled")
	check.NoErrorf(t, server.Run(ctx, settings(t, "mem:"), quiet, nil), "canceled before the start")
}

func TestFaultsAtTheStart(t *testing.T) {
	s := start(t, settings(t, "mem:"))
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "http://"))
	must.NoError(t, err)
	taken := settings(t, "mem:")
	if taken.HTTP.Port, err = net.LookupPort("tcp", port); err != nil {
		t.Fatal(err)
	}
	check.ErrorIsf(t, check.Err(server.Start(t.Context(), taken, quiet)), syscall.EADDRINUSE, "port in use")
	taken.Pprof.Enable, taken.Pprof.Port, taken.HTTP.Port = true, taken.HTTP.Port, 0
	check.ErrorIsf(t, check.Err(server.Start(t.Context(), taken, quiet)), syscall.EADDRINUSE, "pprof port in use")
	var faults config.Faults
	if _, err := server.Start(t.Context(), config.Config{}, quiet); !errors.As(err, &faults) {
		t.Errorf("no settings: %v", err)
	}
	bad := settings(t, "mem:")
	must.NoError(t, os.WriteFile(filepath.Join(bad.DataDir, server.KeyFile), []byte("two words"), 0o600))
	check.Error(t, check.Err(server.Start(t.Context(), bad, quiet)), "a damaged key file was accepted")
}

func TestConnectionsAreLimited(t *testing.T) {
	cfg := settings(t, "mem:")
	cfg.HTTP.Connections = 1
	s := start(t, cfg)
	var conns []net.Conn
	ask := func() {
		t.Helper()
		c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://")))(t)
		t.Cleanup(func() { _ = c.Close() })
		must.Get(io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		conns = append(conns, c)
	}
	status := func(c net.Conn, wait time.Duration) (string, error) {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		return bufio.NewReader(c).ReadString('\n')
	}
	ask()
	if got, err := status(conns[0], time.Minute); got != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("first: %q %v", got, err)
	}
	// The second connection replaces the first, which is idle.
	ask()
	if got, err := status(conns[1], time.Minute); got != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("second: %q %v", got, err)
	}
	_ = conns[0].SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, conns[0]); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("both are open")
	}
}

// TestWebhookTargets: an invalid entry is refused with the name of the flag before the start.
func TestWebhookTargets(t *testing.T) {
	c := settings(t, "mem:")
	c.Webhooks.Targets = "10.0.0.0/8, localhost"
	_, err := server.Start(t.Context(), c, quiet)
	var faults config.Faults
	if !errors.As(err, &faults) || !strings.Contains(err.Error(), `--webhook-targets: allowed targets: invalid entry "localhost"`) {
		t.Errorf("started with %v", err)
	}
	c.Webhooks.Targets = "10.0.0.0/8, 127.0.0.1,all"
	start(t, c)
}

// TestAdvertisedName: probes that use the name of --advertise need no --http-host.
func TestAdvertisedName(t *testing.T) {
	t.Parallel()
	c := settings(t, "mem:")
	c.Advertise = "db1.internal"
	s := start(t, c)
	for host, want := range map[string]int{"db1.internal:51313": http.StatusOK, "db2.internal:51313": http.StatusForbidden} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/readyz", nil))(t)
		r.Host = host
		resp := must.Get(http.DefaultClient.Do(r))(t)
		_ = resp.Body.Close()
		check.Equalf(t, resp.StatusCode, want, "%s", host)
	}
}
