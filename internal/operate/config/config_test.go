package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/spf13/pflag"
)

func parse(t *testing.T, env map[string]string, args ...string) (config.Config, error) {
	t.Helper()
	c := config.Default()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetOutput(new(bytes.Buffer))
	config.Register(fs, &c)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	err := config.FromEnv(fs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	return c, err
}

func TestDefaultsAreValid(t *testing.T) {
	c := must.Get(parse(t, nil))(t)
	must.NoError(t, c.Validate())
	if got, err := c.BucketSpec(); got != "file:seb-bucket" || err != nil {
		t.Errorf("bucket %q, %v", got, err)
	}
	check.Equalf(t, c.CacheDir(), "seb-data/cache", "cache")
}

func TestOriginalCommandLineIsUnderstood(t *testing.T) {
	c := must.Get(parse(t, nil, "--log-level", "5", "--http-address=0.0.0.0", "--http-port", "1234", "--http-api-key", "api-key",
		"--http-connections", "7", "--http-debug-enable", "--http-debug-address", "127.0.0.1", "--http-debug-port", "5001",
		"--s3-bucket", "events", "--cache-dir", "/c", "--cache-size", "1073741824", "--cache-eviction-interval", "5m",
		"--read-only", "--batch-wait-time", "1s", "--batch-bytes-soft-max", "10485760", "--batch-bytes-hard-max", "31457280",
		"--batch-records-hard-max", "32768"))(t)
	must.NoError(t, c.Validate())
	want := config.Default()
	want.Log.Level = slog.LevelDebug
	want.HTTP = config.HTTP{Address: "0.0.0.0", Port: 1234, APIKey: "api-key", Connections: 7, Console: true, SQS: true}
	want.Pprof = config.Pprof{Enable: true, Address: "127.0.0.1", Port: 5001}
	want.S3Bucket, want.ReadOnly = "events", true
	want.Cache.Dir = "/c"
	want.Batch.WaitTime = time.Second
	check.Equalf(t, c, want, "got %v, want %v", c.LogValue(), want.LogValue())
	if got, _ := c.BucketSpec(); got != "s3://events" {
		t.Errorf("bucket %q", got)
	}
}

// TestKafkaListen: an explicit address is required, even if it is the default.
func TestKafkaListen(t *testing.T) {
	for given, offered := range map[string]bool{"": true, "--kafka-listen=127.0.0.1:9092": false, "--kafka-listen=": false, "env": false} {
		c, fs := config.Default(), pflag.NewFlagSet("serve", pflag.ContinueOnError)
		config.Register(fs, &c)
		var args []string
		if strings.HasPrefix(given, "--") {
			args = []string{given}
		}
		err := fs.Parse(args)
		err = errors.Join(err, config.FromEnv(fs, func(k string) (string, bool) { return ":0", given == "env" && k == "SEB_KAFKA_LISTEN" }))
		config.ResolveDefaults(fs, &c)
		if err = errors.Join(err, c.Validate()); err != nil || c.Kafka.Optional != offered {
			t.Errorf("%q: %+v %v", given, c.Kafka, err)
		}
	}
}

// TestTLS: a certificate applies to all listeners unless some are named.
func TestTLS(t *testing.T) {
	for given, want := range map[string][]string{
		"": config.TLSListeners, "http": {"http"}, "kafka": {"kafka"}, "kafka, http": {"http", "kafka"}, "riemann": {"riemann"}, "riemann-web,kafka": {"kafka", "riemann-web"},
	} {
		args := []string{"--tls-cert", "c", "--tls-key", "k"}
		if given != "" {
			args = append(args, "--tls-listeners", given)
		}
		c, err := parse(t, nil, args...)
		on := slices.DeleteFunc(slices.Clone(config.TLSListeners), func(name string) bool { return !c.TLS.On(name) })
		if err = errors.Join(err, c.Validate()); err != nil || !slices.Equal(on, want) {
			t.Errorf("%q: %+v %v", given, c.TLS, err)
		}
	}
	if c := config.Default(); c.TLS.On(config.ListenerHTTP) {
		t.Error("on without a certificate")
	}
	if c, err := parse(t, nil, "--tls-key", "k"); err != nil || c.Validate() == nil {
		t.Errorf("a key alone: %v", err)
	}
}

// TestRiemannAddresses: clients of Riemann listeners that others can reach are authenticated, unless
// the operator accepts that they are not.
func TestRiemannAddresses(t *testing.T) {
	certified := []string{"--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a", "--tls-client-auth", "require"}
	for _, c := range []struct {
		address string
		more    []string
		starts  bool
	}{
		{"127.0.0.1:5555", nil, true},
		{"localhost:5555", nil, true},
		{"[::1]:5555", nil, true},
		{"", nil, true},
		{":5555", nil, false},
		{"0.0.0.0:5555", nil, false},
		{"192.0.2.1:5555", nil, false},
		{"192.0.2.1:5555", certified[:4], false},
		{"192.0.2.1:5555", slices.Concat(certified[:7], []string{"request"}), false},
		{"192.0.2.1:5555", slices.Concat(certified, []string{"--tls-listeners", "http"}), false},
		{"192.0.2.1:5555", certified, true},
		{"192.0.2.1:5555", []string{"--riemann-allow-anonymous"}, true},
	} {
		for _, flag := range []string{"--riemann-listen", "--riemann-web-listen"} {
			s := must.Get(parse(t, nil, slices.Concat(c.more, []string{flag, c.address})...))(t)
			if err := s.Validate(); (err == nil) != c.starts || err != nil && !strings.Contains(err.Error(), flag+": ") {
				t.Errorf("%s %s %q: %v", flag, c.address, c.more, err)
			}
		}
	}
	for flag, other := range map[string]string{"--riemann-listen": config.ListenerRiemannWeb, "--riemann-web-listen": config.ListenerRiemann} {
		s := must.Get(parse(t, nil, slices.Concat(certified, []string{flag, "0.0.0.0:5555", "--tls-listeners", other})...))(t)
		check.Error(t, s.Validate(), "%s starts without TLS", flag)
	}
}

// TestRiemannDatagrams: datagrams have no certificates.
func TestRiemannDatagrams(t *testing.T) {
	certified := []string{"--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a", "--tls-client-auth", "require", "--riemann-udp", "0.0.0.0:5555"}
	for _, c := range []struct {
		args   []string
		starts bool
	}{
		{[]string{"--riemann-udp", "127.0.0.1:5555"}, true},
		{certified, false},
		{append(certified, "--riemann-allow-anonymous"), true},
	} {
		s := must.Get(parse(t, nil, c.args...))(t)
		if err := s.Validate(); (err == nil) != c.starts || err != nil && !strings.Contains(err.Error(), "--riemann-udp: ") {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

// TestCertificatesOfClients: with authorities, listeners ask for certificates unless told otherwise.
func TestCertificatesOfClients(t *testing.T) {
	for given, want := range map[string][2]bool{"": {true, false}, "off": {false, false}, "request": {true, false}, "require": {true, true}} {
		c, err := parse(t, nil, "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a", "--tls-client-auth", given)
		ask, require := c.TLS.Clients()
		if err = errors.Join(err, c.Validate()); err != nil || [2]bool{ask, require} != want {
			t.Errorf("%q: %v %v %v", given, ask, require, err)
		}
	}
	for _, args := range [][]string{{"--tls-client-ca", "a"}, {"--tls-client-auth", "require"}, {"--tls-client-auth", "request", "--tls-cert", "c", "--tls-key", "k"}} {
		if c, err := parse(t, nil, args...); err != nil || c.Validate() == nil {
			t.Errorf("%v is accepted: %v", args, err)
		}
	}
	if c, err := parse(t, nil, "--tls-client-auth", "off"); err != nil || c.Validate() != nil {
		t.Errorf("off alone: %v", c.Validate())
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"SEB_BUCKET": "mem:", "SEB_API_KEY": "from-env", "SEB_HTTP_PORT": "99", "SEB_DATA_DIR": ""}
	c, err := parse(t, env, "--http-port", "100")
	must.NoError(t, err)
	if c.Bucket != "mem:" || c.HTTP.APIKey.Reveal() != "from-env" {
		t.Errorf("environment not taken: %v", c.LogValue())
	}
	check.Equalf(t, c.HTTP.Port, 100, "port: a flag goes before the environment")
	check.Equalf(t, c.DataDir, "seb-data", "an empty variable changed the data folder to")
	_, err = parse(t, map[string]string{"SEB_HTTP_PORT": "x", "SEB_MEMORY_LIMIT": "y"})
	if err == nil || !strings.Contains(err.Error(), "$SEB_HTTP_PORT") || !strings.Contains(err.Error(), "$SEB_MEMORY_LIMIT: want a size") {
		t.Errorf("faults in the environment: %v", err)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	c := config.Default()
	c.Bucket, c.S3Bucket = "mem:", "b"
	c.DataDir = ""
	c.MemoryLimit = 1
	c.HTTP = config.HTTP{Port: 70000, APIKey: "with space", APIKeyFile: "f", Origins: "https://a.example,*", Hosts: "a:1"}
	c.Kafka = config.Kafka{Listen: "9092", Advertise: ":9092"}
	c.Riemann = config.Riemann{Listen: "5555", UDP: "5555", Ack: "never", Patience: -1, Token: "t"}
	c.TLS = config.TLS{CertFile: "f", Listeners: "http,webhooks", ClientAuth: "maybe", ClientCRL: "f", PrincipalMapping: "DEFAULT"}
	c.Pprof.Address, c.Pprof.Port = "0.0.0.0", -1
	c.Batch.WaitTime, c.Batch.BytesSoftMax = time.Hour, 1
	c.PutBudget = "20USD/month"
	c.Maintenance = config.Maintenance{PackBytes: 2 << 30, SnapshotSlots: 9}
	c.Secrets = config.SecretsKeys{Key: "k", File: "f"}
	c.Log.Format = "xml"
	err := c.Validate()
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v", err)
	}
	for _, flag := range []string{
		"s3-bucket", "data-dir", "memory-limit", "http-address", "http-port", "http-connections", "http-api-key-file",
		"http-api-key", "http-debug-address", "http-debug-port", "batch-wait-time", "put-budget", "batch-bytes-soft-max", "pack-bytes",
		"pack-age", "merge-interval", "snapshot-slots", "retention-interval", "log-format", "kafka-listen", "kafka-advertise", "tls-key", "tls-listeners", "tls-client-auth", "tls-client-crl", "tls-principal-mapping", "cors-origin", "http-host", "secrets-key-file",
		"riemann-listen", "riemann-udp", "riemann-topic", "riemann-ack", "riemann-patience", "riemann-max-message", "riemann-token",
	} {
		check.Containsf(t, err.Error(), "--"+flag+": ", "no fault for --%s in: %v", flag, err)
	}
	check.Equalf(t, len(faults), 37, "faults: %v", err)
}

func TestSecretsAreMasked(t *testing.T) {
	c := config.Default()
	c.HTTP.APIKey = "hunter2"
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("settings", "config", c)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("settings", "config", c, "key", c.HTTP.APIKey)
	fmt.Fprintf(&out, "%v %+v %#v %s", c, c, c, c.HTTP.APIKey)
	must.NoError(t, json.NewEncoder(&out).Encode(c))
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("secret printed: %s", out.String())
	}
	if !strings.Contains(out.String(), "config.http-api-key=***") || !strings.Contains(out.String(), "config.http-port=51313") {
		t.Errorf("settings missing: %s", out.String())
	}
}

func TestBytes(t *testing.T) {
	for in, want := range map[string]config.Bytes{"0": 0, "10485760": 10 << 20, "10MiB": 10 << 20, "10m": 10 << 20, "1GiB": 1 << 30, "3 kb": 3072, "7b": 7} {
		var b config.Bytes
		if err := b.Set(in); err != nil || b != want {
			t.Errorf("%q: %d, %v", in, b, err)
		}
		var again config.Bytes
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%v does not come back: %v, %v", b, again, err)
		}
	}
	for _, in := range []string{"", "x", "-1", "1.5GiB", "9999999999GiB", "10TB"} {
		var b config.Bytes
		check.Error(t, b.Set(in), "%q taken as %v", in, b)
	}
}

// TestOriginsAndHosts: flags repeat, the environment has commas, and only origins that a browser can
// send are accepted.
func TestOriginsAndHosts(t *testing.T) {
	c, err := parse(t, map[string]string{"SEB_HTTP_HOST": "seb, seb.example.com"}, "--cors-origin", "https://app.example.com", "--cors-origin=http://localhost:3000")
	if err = errors.Join(err, c.Validate()); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, fmt.Sprint(c.HTTP.Origins.List(), c.HTTP.Hosts.List()), "[https://app.example.com http://localhost:3000] [seb seb.example.com]")
	for _, origin := range []string{"*", "null", "app.example.com", "https://a/", "https://a/b", "https://", "ftp://a", "https://u@a", "https://a?b"} {
		c := config.Default()
		c.HTTP.Origins = config.List(origin)
		check.ErrorContainsf(t, c.Validate(), "--cors-origin: ", "%s", origin)
	}
}
