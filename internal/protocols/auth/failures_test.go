package auth_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestFailuresOfANetworkAreSlowedDown(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := auth.NewFailures(slog.New(slog.DiscardHandler), func() time.Time { return now })
	for i := range 10 {
		must.Equalf(t, f.Failed("http", fmt.Sprintf("192.0.2.%d:1", i)), 0, "failure %d waits", i+1)
	}
	for range 3 {
		check.Equalf(t, f.Failed("http", "192.0.2.99:1"), auth.FailureDelay, "a failure after the free ones waits")
	}
	for _, other := range []string{"192.0.3.1:1", "[2001:db8::1]:1", "pipe"} {
		check.Equalf(t, f.Failed("kafka", other), 0, "a failure from %s waits", other)
	}
	now = now.Add(2 * time.Second)
	for i, want := range []time.Duration{0, 0, auth.FailureDelay} {
		check.Equalf(t, f.Failed("http", "[::ffff:192.0.2.1]:1"), want, "2 s later failure %d waits", i+1)
	}
}

func TestFailuresAreLoggedNowAndThen(t *testing.T) {
	now := time.Unix(1e9, 0)
	var log bytes.Buffer
	f := auth.NewFailures(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	for i := range 1000 {
		f.Failed("http", fmt.Sprintf("192.0.2.1:%d", i))
		now = now.Add(time.Millisecond)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "remote=192.0.2.1:0") {
		t.Errorf("%d lines within a second: %s", n, log.String())
	}
	f.Failed("kafka", "198.51.100.7:1")
	now = now.Add(9 * time.Second) // 10 s after the first
	f.Failed("http", "192.0.2.1:1")
	if n := strings.Count(log.String(), "\n"); n != 3 || !strings.Contains(log.String(), "listener=kafka remote=198.51.100.7:1 delay=0s others_before=999") {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

func TestTheTableOfNetworksIsBounded(t *testing.T) {
	sebtest.Long(t, "TestMetersAreBounded remains")
	now := time.Unix(1e9, 0)
	f, before := auth.NewFailures(slog.New(slog.DiscardHandler), func() time.Time { return now }), sebtest.Heap()
	for i := range 10_000 {
		f.Failed("http", fmt.Sprintf("10.%d.%d.1:1", i>>8, i&0xff))
	}
	if held := sebtest.Heap() - before; held > 512<<10 {
		t.Errorf("the networks take %d bytes", held)
	}
	runtime.KeepAlive(f)
}

func TestEachFailureIsReported(t *testing.T) {
	f := auth.NewFailures(slog.New(slog.DiscardHandler), nil)
	var got []string
	f.Audit = func(listener, remote, network string) { got = append(got, listener+" "+remote+" "+network) }
	f.Failed("http", "192.0.2.7:5")
	f.Failed("kafka", "[2001:db8::1]:5")
	check.EqualSlicesf(t, got, []string{"http 192.0.2.7:5 192.0.2.0/24", "kafka [2001:db8::1]:5 2001:db8::/64"}, "reported")
}
