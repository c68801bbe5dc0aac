package interop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// oldLibraries are old versions of librdkafka that are still in use. They come from
// confluent-kafka's wheels for a Python of their time. kcat uses them without Python.
var oldLibraries = []struct{ version, python string }{
	{"1.6.1", "3.9"},  // 2021; kcat's groups need 1.6
	{"1.9.2", "3.10"}, // 2022, the last 1.x
}

// oldLibrary installs an old librdkafka and returns its path.
func oldLibrary(t *testing.T, version, pythonVersion string) string {
	t.Helper()
	path := must.Get(needs("python3", "fetches old librdkafka with pip"))(t)
	dir := must.Get(testenv.Pip(t.Context(), path, "librdkafka-"+version, "librdkafka "+version, "--python-version", pythonVersion, "confluent-kafka=="+version))(t)
	var found []string
	for _, pattern := range []string{"confluent_kafka.libs/librdkafka-*.so.1", "confluent_kafka/.libs/librdkafka-*.so.1"} {
		list := must.Get(filepath.Glob(filepath.Join(dir, pattern)))(t)
		found = append(found, list...)
	}
	must.Equalf(t, len(found), 1, "%s has librdkafka as %v", dir, found)
	return found[0]
}

// newOldKcat returns kcat with an old librdkafka.
func newOldKcat(t *testing.T, b *testenv.InteropBroker, version, pythonVersion string) *kcat {
	t.Helper()
	library := oldLibrary(t, version, pythonVersion)
	links := t.TempDir()
	must.NoError(t, os.Symlink(library, filepath.Join(links, "librdkafka.so.1")))
	k := newKcat(t, b, "PLAIN")
	k.env[0] = strings.Replace(k.env[0], "=", "="+links+":", 1)
	must.Containsf(t, k.run(nil, "-V"), "librdkafka "+version+" ", "want librdkafka %s", version)
	return k
}

// TestOldLibrdkafka writes and reads with versions of librdkafka from 2021 on, in a group and
// alone, with each mechanism of SASL.
func TestOldLibrdkafka(t *testing.T) {
	testenv.InteropWanted(t)
	const count = 100_000
	for _, old := range oldLibraries {
		t.Run(old.version, func(t *testing.T) {
			b := testenv.ServeInterop(t)
			k := newOldKcat(t, b, old.version, old.python)
			name := "librdkafka " + old.version
			kcatRecords(t, k, name, b, count)

			begin := time.Now()
			createTopic(t, b, "work", partitions)
			k.run(lines(0, count), "-P", "-t", "work", "-K", "\\t", "-X", "enable.idempotence=true")
			expectLog(t, b, "work", count, nil)
			c := newCrew(t, b, "work")
			c.kcatMember(k, "work")
			c.kcatMember(k, "work")
			c.finish(count)
			c.judge(judgement{count: count})
			for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
				check.Containsf(t, k.run(nil, "-L", "-X", "sasl.mechanisms="+mechanism), `topic "work" with 6 partitions`, "%s", mechanism)
			}
			check.Equalf(t, firstOffset(k, "work"), "work [0] offset 0\n", "the first offset")
			_, said, err := k.try(strings.NewReader("x\n"), "-P", "-t", "work", "-X", "sasl.password=wrong")
			if err == nil || !strings.Contains(said, "Authentication") && !strings.Contains(said, "authentication") {
				t.Errorf("a wrong key: %v: %s", err, said)
			}
			report(t, name, "idempotent producer, group of 2, SASL, -L, -Q", time.Since(begin))
		})
	}
}

// TestOldestLibrdkafka writes and reads with the first librdkafka with idempotent producers (2019),
// which current versions of kcat cannot use. It authenticates with SASL messages without heads
// (SaslHandshake v0).
func TestOldestLibrdkafka(t *testing.T) {
	testenv.InteropWanted(t)
	const version, count = "1.0.1", 20_000
	b := testenv.ServeInterop(t)
	p := newPython(t, b)
	p.client = "librdkafka " + version
	library := oldLibrary(t, version, "3.7")
	p.env = append(p.env, "LD_LIBRARY_PATH="+filepath.Dir(library))
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		createTopic(t, b, mechanism, 3)
		p.run(p.report, "old.py", library, version, mechanism, mechanism, strconv.Itoa(count))
		expectLog(t, b, mechanism, count, nil)
	}
}

// firstOffset requests the first offset of partition 0. In every second call librdkafka 1.6.1 does
// not know the partition, with Kafka 4.3.1 either.
func firstOffset(k *kcat, topic string) (said string) {
	for range 20 {
		out, errors, err := k.try(strings.NewReader(""), "-Q", "-t", topic+":0:1")
		if err == nil {
			return out
		}
		if said = errors; !strings.Contains(said, "Local: Unknown partition") {
			break
		}
	}
	return said
}
