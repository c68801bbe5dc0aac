package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestDoctorFindings: each error is found by its check, with advice, and everything else is OK.
func TestDoctorFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, cfg *config.Config)
		level severity
		check string
		text  string
	}{
		"a new machine":         {func(*testing.T, *config.Config) {}, checkOK, "bucket", "the first start creates it"},
		"memory":                {func(_ *testing.T, cfg *config.Config) { cfg.MemoryLimit = 1 << 50 }, checkFail, "memory", "1048576.0 GiB"},
		"records in memory":     {func(_ *testing.T, cfg *config.Config) { cfg.Bucket = "mem:" }, checkWarn, "bucket", "end with the process"},
		"no such bucket":        {func(_ *testing.T, cfg *config.Config) { cfg.Bucket = "ftp://x" }, checkFail, "bucket", "ftp://x"},
		"a log":                 {writeLog, checkOK, "log", fmt.Sprintf("epoch 1, format level %d", state.LevelMax)},
		"a damaged log":         {damageLog(objstore.DiskOptions{NoJournal: true}), checkFail, "log", "checksum"},
		"a damaged journal":     {damageLog(objstore.DiskOptions{}), checkFail, "log", "at offset 0 are damaged"},
		"a clock that is late":  {futureLog, checkFail, "clock", "in the future"},
		"a backup":              {func(t *testing.T, cfg *config.Config) { writeLog(t, cfg); rename(t, cfg, core.MetaKey, "meta/backup") }, checkFail, "log", "seb restore"},
		"a read-only broker":    {func(t *testing.T, cfg *config.Config) { writeLog(t, cfg); cfg.ReadOnly = true }, checkOK, "store", "nothing is written"},
		"another program":       {taken, checkWarn, "HTTP address", "is in use"},
		"an address elsewhere":  {func(_ *testing.T, cfg *config.Config) { cfg.HTTP.Address = "192.0.2.1" }, checkFail, "HTTP address", "192.0.2.1"},
		"no certificate":        {func(_ *testing.T, cfg *config.Config) { cfg.TLS.CertFile, cfg.TLS.KeyFile = "no.pem", "no.key" }, checkFail, "certificate", "no.pem"},
		"an old certificate":    {certificate(testenv.Leaf{Ended: true}), checkFail, "certificate", "ended at"},
		"a certificate":         {certificate(testenv.Leaf{}), checkOK, "certificate", "ends at"},
		"no authority":          {clients("no.pem", 0), checkFail, "client certificates", "no.pem"},
		"an outdated list":      {clients("", -time.Hour), checkWarn, "client certificates", "is outdated since"},
		"client certificates":   {clients("", time.Hour), checkOK, "client certificates", "authorities of"},
		"a broker for some":     {demanding, checkOK, "HTTP address", "a broker answers"},
		"no key file":           {func(_ *testing.T, cfg *config.Config) { cfg.HTTP.APIKeyFile = "no-key" }, checkFail, "API key", "--http-api-key-file: open no-key"},
		"a damaged key file":    {keyFile("a key\n"), checkFail, "API key", "--http-api-key-file: "},
		"a short key":           {keyFile("short\n"), checkWarn, "API key", "5 bytes, want at least 16"},
		"a generated key":       {emptyKey, checkFail, "API key", "api-key: "},
		"a new key":             {func(*testing.T, *config.Config) {}, checkOK, "API key", "the first start generates one"},
		"a wrong secrets key":   {func(_ *testing.T, cfg *config.Config) { cfg.Secrets.Key = "x" }, checkFail, "secrets", "not a secrets key"},
		"no secrets":            {writeLog, checkOK, "secrets", "no trigger has secrets"},
		"a file as data folder": {func(t *testing.T, cfg *config.Config) { cfg.DataDir = filepath.Join(write(t, cfg.DataDir), "data") }, checkFail, "data-dir", "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			dir := t.TempDir()
			cfg.DataDir, cfg.Bucket, cfg.HTTP.Port, cfg.Kafka.Listen = filepath.Join(dir, "data"), filepath.Join(dir, "bucket"), 0, ""
			c.spoil(t, &cfg)
			found, clock := false, false
			for _, f := range examine(t.Context(), cfg) {
				clock = clock || f.check == "clock"
				if f.check == c.check {
					found = true
					if f.severity != c.level || !strings.Contains(f.text, c.text) || (f.advice == "") != (f.severity == checkOK) {
						t.Errorf("%+v, want %s with %q", f, c.level, c.text)
					}
				} else if f.severity == checkFail {
					t.Errorf("%+v", f)
				}
			}
			if !found || !clock {
				t.Errorf("finding of %q: %v; of the clock: %v", c.check, found, clock)
			}
		})
	}
}

// TestDoctorS3 checks the permissions and compares the clocks.
func TestDoctorS3(t *testing.T) {
	s := testenv.S3ForTest(t)
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
	cfg := config.Default()
	cfg.DataDir, cfg.Bucket, cfg.HTTP.Port, cfg.Kafka.Listen = t.TempDir(), s.Spec("p"), 0, ""
	levels := map[string]finding{}
	for _, f := range examine(t.Context(), cfg) {
		levels[f.check] = f
	}
	if levels["store"].severity != checkOK || levels["clock"].severity != checkOK || !strings.Contains(levels["clock"].text, "from the store's") || levels["log"].severity != checkOK ||
		levels["lifecycle"].severity != checkOK || levels["versioning"].severity != checkOK {
		t.Errorf("%+v", levels)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	for _, f := range examine(t.Context(), cfg) {
		if f.check == "store" && (f.severity != checkFail || !strings.Contains(f.text, "PUT")) || strings.Contains(f.text, "wrong") {
			t.Errorf("%+v", f)
		}
	}
	must.NoError(t, s.Stop())
	for _, f := range examine(t.Context(), cfg) {
		if f.check == "store" && (f.severity != checkFail || !strings.Contains(f.advice, "endpoint")) {
			t.Errorf("%+v", f)
		}
	}
}

func writeLog(t *testing.T, cfg *config.Config) { t.Helper(); logAt(t, cfg, 0, objstore.DiskOptions{}) }

// futureLog is the log of a machine whose clock is a day ahead.
func futureLog(t *testing.T, cfg *config.Config) {
	t.Helper()
	logAt(t, cfg, 24*time.Hour, objstore.DiskOptions{})
}

// logAt creates a bucket with a topic, like a broker whose clock is ahead.
func logAt(t *testing.T, cfg *config.Config, ahead time.Duration, o objstore.DiskOptions) {
	t.Helper()
	store := must.Get(objstore.OpenDisk(cfg.Bucket, o))(t)
	defer store.Close()
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Options: log.Options{Store: store, Budget: budget.New(64 << 20), Logger: slog.New(slog.DiscardHandler), Clocks: func() log.Reading { return log.Reading{Wall: time.Now().Add(ahead).UnixMicro()} }},
	}))(t)
	must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 1}))(t)
	must.NoError(t, b.Close(context.Background()))
}

// slots returns the files of commit objects in the bucket, in log order. The second one is the first of
// epoch 1, or its journal.
func slots(t *testing.T, cfg *config.Config) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(cfg.Bucket, "s0000", "wal", "*", "*"))
	if err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	return all
}

func damageLog(o objstore.DiskOptions) func(t *testing.T, cfg *config.Config) {
	return func(t *testing.T, cfg *config.Config) {
		logAt(t, cfg, 0, o)
		file := slots(t, cfg)[1]
		b := must.Get(os.ReadFile(file))(t)
		b[20] ^= 1
		must.NoError(t, os.WriteFile(file, b, 0o600))
	}
}

func rename(t *testing.T, cfg *config.Config, from, to string) {
	t.Helper()
	must.NoError(t, os.Rename(filepath.Join(cfg.Bucket, from), filepath.Join(cfg.Bucket, to)))
}

// taken listens on the broker's address.
func taken(t *testing.T, cfg *config.Config) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	cfg.HTTP.Port = l.Addr().(*net.TCPAddr).Port
}

func certificate(leaf testenv.Leaf) func(t *testing.T, cfg *config.Config) {
	return func(t *testing.T, cfg *config.Config) {
		t.Helper()
		f := testenv.NewAuthority(t).Files(t, t.TempDir(), leaf)
		cfg.TLS.CertFile, cfg.TLS.KeyFile = f.Cert, f.Key
	}
}

// clients asks for certificates of clients, of an authority or those of a file, with a list that is
// due after a time.
func clients(file string, due time.Duration) func(t *testing.T, cfg *config.Config) {
	return func(t *testing.T, cfg *config.Config) {
		t.Helper()
		certificate(testenv.Leaf{})(t, cfg)
		a, dir := testenv.NewAuthority(t), t.TempDir()
		cfg.TLS.ClientCA = file
		if file == "" {
			cfg.TLS.ClientCA, cfg.TLS.ClientCRL = a.File(t, dir), filepath.Join(dir, "list.pem")
			a.Revocations(t, cfg.TLS.ClientCRL, due)
		}
	}
}

// demanding serves the HTTP address to clients with a certificate only.
func demanding(t *testing.T, cfg *config.Config) {
	t.Helper()
	clients("", time.Hour)(t, cfg)
	cfg.TLS.ClientAuth = "require"
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	cfg.HTTP.Port = s.Listener.Addr().(*net.TCPAddr).Port
}

// keyFile sets a file of the API key.
func keyFile(text string) func(t *testing.T, cfg *config.Config) {
	return func(t *testing.T, cfg *config.Config) { t.Helper(); cfg.HTTP.APIKeyFile = testFile(t, text) }
}

// emptyKey empties the file of the generated key.
func emptyKey(t *testing.T, cfg *config.Config) {
	t.Helper()
	cfg.DataDir = t.TempDir()
	write(t, filepath.Join(cfg.DataDir, server.KeyFile))
}

func write(t *testing.T, file string) string {
	t.Helper()
	must.NoError(t, os.WriteFile(file, nil, 0o600))
	return file
}
