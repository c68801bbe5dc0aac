package main_test

import (
	"cmp"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// wrongValues has a value for each flag of serve that prevents the start. $FILE is a file where a
// folder is required.
var wrongValues = map[string]string{
	"bucket": "s4://bucket", "s3-bucket": "both", "data-dir": "$FILE", "events-topic": "bad/name", "audit-topic": "bad/name", "memory-limit": "1KiB",
	"advertise": strings.Repeat("a", 300), "read-only": "maybe", "take-over": "maybe", "hold-upgrade": "maybe", "accept-clock": "maybe", "auto-create-topics": "maybe", "default-partitions": "0", "producer-expiration": "1m", "transaction-max-timeout": "48h",
	"http-address": "256.0.0.1", "http-port": "65536", "http-api-key": "with space", "http-api-key-file": "no-such-file", "http-connections": "0", "original-client": "maybe", "console": "maybe", "sqs": "maybe", "cors-origin": "*", "http-host": "a:1",
	"tls-cert": "no-such-file", "tls-key": "no-such-file", "tls-listeners": "smtp", "tls-client-ca": "no-such-file", "tls-client-auth": "maybe", "tls-client-crl": "no-such-file", "tls-principal-mapping": "DEFAULT",
	"riemann-listen": "192.0.2.1:5555", "riemann-udp": "192.0.2.1:5555", "riemann-topic": "triggers", "riemann-web-listen": "192.0.2.1:5556", "riemann-ack": "never", "riemann-patience": "2h", "riemann-max-message": "1", "riemann-allow-anonymous": "maybe", "riemann-token": "seb_x_y",
	"kafka-listen": "nowhere", "kafka-advertise": "host:0", "webhook-targets": "10.0.0.0/99", "secrets-key": "sebsecrets_0", "secrets-key-file": "no-such-file",
	"http-debug-enable": "maybe", "http-debug-address": "192.0.2.1", "http-debug-port": "65536",
	"cache-dir": "$FILE", "cache-size": "-1", "batch-wait-time": "2h", "batch-bytes-soft-max": "1",
	"pack-bytes": "1", "pack-age": "0s", "merge-interval": "0s", "snapshot-slots": "0", "retention-interval": "0s", "prices": "no-such-list", "put-budget": "20",
	"log-level": "loud", "log-format": "xml",
	"cache-eviction-interval": "x", "batch-bytes-hard-max": "x", "batch-records-hard-max": "x",
}

// TestABrokerThatCannotStartTakesNothing starts brokers with an invalid value of each flag, and
// with each address in use, next to a leader. None takes over.
func TestABrokerThatCannotStartTakesNothing(t *testing.T) {
	p := newWorkDir(t)
	p.env = []string{"AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
	server := testenv.S3ForTest(t)
	bucket := server.Spec("starts")
	leader := p.serve("--bucket", bucket, "--kafka-listen", "127.0.0.1:0", "--batch-wait-time", "0")
	p.mustWith("one\n", "produce", "demo")
	epochs := epochsOf(t, bucket)

	file := filepath.Join(p.dir, "file")
	must.NoError(t, os.WriteFile(file, nil, 0o600))
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())

	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	settings := config.Default()
	config.Register(fs, &settings)
	var starts [][]string
	code := map[string]int{} // of the flags: the unit does not start the broker again after 2
	wrong := maps.Clone(wrongValues)
	fs.VisitAll(func(f *pflag.Flag) {
		v, ok := wrong[f.Name]
		if !ok {
			t.Errorf("no wrong value for --%s", f.Name)
		}
		delete(wrong, f.Name)
		arg := "--" + f.Name + "=" + strings.ReplaceAll(v, "$FILE", file)
		starts, code[arg] = append(starts, []string{arg}), 2
	})
	code["--http-address=256.0.0.1"] = 1 // a name that is not known may be known later
	if len(wrong) > 0 {
		t.Errorf("no such flags: %v", slices.Sorted(maps.Keys(wrong)))
	}
	starts = append(starts,
		[]string{"--http-port=" + port}, []string{"--kafka-listen=127.0.0.1:" + port}, []string{"--riemann-listen=127.0.0.1:" + port},
		[]string{"--riemann-web-listen=127.0.0.1:" + port},
		[]string{"--http-debug-enable", "--http-debug-port=" + port},
		[]string{"--tls-cert=" + file, "--tls-key=" + file}, []string{"--http-api-key-file=" + file}, []string{"--data-dir=seb-data"},
	)
	for _, wrong := range starts {
		b := p.launch(append([]string{"--bucket", bucket, "--data-dir", "other", "--http-port", "0", "--kafka-listen", ""}, wrong...)...)
		waitFor(t, func() bool {
			select {
			case <-b.done:
				return true
			default:
				return b.serves()
			}
		})
		b.kill()
		said := b.err.String()
		if got, want := b.cmd.ProcessState.ExitCode(), code[wrong[0]]; got <= 0 || want > 0 && got != want {
			t.Errorf("%s: exit code %d, want %d: %s", wrong, got, cmp.Or(want, 1), said)
		}
		check.EqualSlicesf(t, epochsOf(t, bucket), epochs, "%s: epochs: %s", wrong, said)
		check.Containsf(t, said, strings.Split(strings.TrimPrefix(wrong[len(wrong)-1], "--"), "=")[0], "%s: the error does not name the flag", wrong)
		p.mustWith("more\n", "produce", "demo")
	}
	if code := leader.term(); code != 0 {
		t.Errorf("exit code %d: %s", code, leader.err.String())
	}
}

// epochsOf returns the folders of epochs below wal/.
func epochsOf(t *testing.T, bucket string) (folders []string) {
	t.Helper()
	store := must.Get(anystore.Open(t.Context(), bucket, anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(t)
	for o := (objstore.ListOptions{Prefix: "s0000/wal/"}); ; {
		entries, more := must.Get2(store.List(t.Context(), o))(t)
		for _, e := range entries {
			folders = append(folders, filepath.Dir(e.Key))
			o.After = e.Key
		}
		if !more {
			return slices.Compact(folders)
		}
	}
}
