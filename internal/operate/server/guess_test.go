package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// startLogged starts a broker with a Kafka listener, and returns its log.
func startLogged(t *testing.T, change func(*config.Config)) (*server.Server, *sebtest.Log) {
	t.Helper()
	c, l := settings(t, "mem:"), new(sebtest.Log)
	c.Kafka.Listen = "127.0.0.1:0"
	if change != nil {
		change(&c)
	}
	s := must.Get(server.Start(t.Context(), c, slog.New(slog.NewTextHandler(l, nil))))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s, l
}

// TestGuessesAreSlowedDown: some of many wrong keys must wait, and the log has their address; the
// right key never waits.
func TestGuessesAreSlowedDown(t *testing.T) {
	t.Parallel()
	s, log := startLogged(t, nil)
	guess := func(key string) (status int, took time.Duration) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/topics", nil))(t)
		r.Close = true
		r.Header.Set("Authorization", "Bearer "+key)
		began := time.Now()
		resp := must.Get(http.DefaultTransport.RoundTrip(r))(t)
		_ = resp.Body.Close()
		return resp.StatusCode, time.Since(began)
	}
	slow := func(what string, try func() time.Duration) {
		t.Helper()
		for range 100 {
			if try() >= auth.FailureDelay {
				return
			}
		}
		t.Errorf("100 guesses over %s, and none had to wait", what)
	}
	slow("HTTP", func() time.Duration {
		status, took := guess("wrong")
		check.Equalf(t, status, http.StatusUnauthorized, "a wrong key")
		return took
	})
	slow("Kafka", func() time.Duration {
		c := must.Get(kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()), kgo.SASL(plain.Auth{User: "u", Pass: "wrong"}.AsMechanism())))(t)
		defer c.Close()
		began := time.Now()
		must.Error(t, c.Ping(t.Context()), "a wrong password is accepted")
		return time.Since(began)
	})
	if status, _ := guess(s.APIKey()); status != http.StatusOK {
		t.Errorf("the right key: %d", status)
	}
	check.NoErrorf(t, kafkaClient(t, s).Ping(t.Context()), "the right password")
	if text := log.String(); !strings.Contains(text, `level=WARN msg="failed login" listener=http remote=127.0.0.1:`) || strings.Contains(text, s.APIKey()) {
		t.Errorf("log: %s", text)
	}
}

func TestWeakKeysAreWarnedOf(t *testing.T) {
	const short, open, link = "API key too short", "accessible to other users", "symbolic link"
	write := func(file, key string, mode os.FileMode) {
		must.NoError(t, os.WriteFile(file, []byte(key), 0o600))
		must.NoError(t, os.Chmod(file, mode))
	}
	const long = "sixteen-letters!"
	for name, c := range map[string]struct {
		change func(c *config.Config, own, other string)
		want   string
		hint   string
	}{
		"made":         {func(*config.Config, string, string) {}, "", ""},
		"given, short": {func(c *config.Config, _, _ string) { c.HTTP.APIKey = "fifteen-letters" }, short, "openssl"},
		"given":        {func(c *config.Config, _, _ string) { c.HTTP.APIKey = long }, "", ""},
		"file, short":  {func(c *config.Config, _, f string) { write(f, "x", 0o600); c.HTTP.APIKeyFile = f }, short, "openssl"},
		"file, open":   {func(c *config.Config, _, f string) { write(f, long, 0o644); c.HTTP.APIKeyFile = f }, open, "chmod 600 "},
		"file, link": {func(c *config.Config, own, f string) {
			write(f, long, 0o600)
			_ = os.Symlink(f, own)
			c.HTTP.APIKeyFile = own
		}, "", ""},
		"kept, open":    {func(_ *config.Config, own, _ string) { write(own, long, 0o640) }, open, "chmod 600 "},
		"kept, link":    {func(_ *config.Config, own, f string) { write(f, long, 0o600); _ = os.Symlink(f, own) }, link, "mv "},
		"kept, short":   {func(_ *config.Config, own, _ string) { write(own, "x", 0o600) }, short, "openssl"},
		"kept, private": {func(_ *config.Config, own, _ string) { write(own, long, 0o400) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, log := startLogged(t, func(cfg *config.Config) {
				c.change(cfg, filepath.Join(cfg.DataDir, server.KeyFile), filepath.Join(t.TempDir(), "k"))
			})
			text := log.String()
			for _, w := range []string{short, open, link} {
				check.Equalf(t, strings.Contains(text, w), w == c.want, "want %q in the log: %s", c.want, text)
			}
			if !strings.Contains(text, c.hint) || strings.Contains(text, "fifteen-letters") {
				t.Errorf("want %q in the log: %s", c.hint, text)
			}
		})
	}
}
