package interop

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	// kafkaPythonVersion is the version of kafka-python whose tests run.
	kafkaPythonVersion = "3.0.12"
	// kafkaPythonTests is the number of its integration tests.
	kafkaPythonTests = 67
	// kafkaPythonKafka is the version of Kafka that it derives from the API versions of Seb.
	kafkaPythonKafka = "4.3"
)

// kafkaPythonNot are the integration tests of kafka-python that do not pass, their results, and the
// reasons.
var kafkaPythonNot = map[string]struct{ end, reason string }{
	"test_alter_replica_log_dirs":         {fails, "Seb: no replicas, so no AlterReplicaLogDirs"},
	"test_alter_partition_reassignments":  {fails, "Seb: no replicas, so no AlterPartitionReassignments"},
	"test_describe_metadata_quorum":       {fails, "Seb: no quorum of controllers, so no DescribeQuorum"},
	"test_transactional_producer_offsets": {fails, "Seb: offsets of groups have no leader epoch"},
	"test_group":                          {fails, "a session timeout of 3 s: the minimum is 6 s, the default of Kafka"},

	"test_ssl_handshake":           {fails, "starts a Kafka with TLS"},
	"test_legacy_kafka_client_ssl": {fails, "starts a Kafka with TLS"},
	"test_admin":                   {skips, "starts a Kafka with SASL"},
	"test_produce_and_consume":     {skips, "starts a Kafka with SASL"},
	"test_client":                  {skips, "starts a Kafka with SASL"},

	"test_kafka_consumer_offsets_for_time_old": {skips, "for Kafka before 0.10.1"},
}

// kafkaPython installs the source of kafka-python, whose archive has its tests, and what they need.
func kafkaPython(ctx context.Context) (python, packages, source string, err error) {
	if python, err = needs("python3", "kafka-python runs in"); err != nil {
		return "", "", "", err
	}
	version, err := testenv.Command(ctx, ".", python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
	if err != nil {
		return "", "", "", err
	}
	name := fmt.Sprintf("kafka-python-tests-1-python%s-%s", strings.TrimSpace(version), runtime.GOARCH)
	packages, err = testenv.Pip(ctx, python, name, "pytest", "pytest==8.4.2", "pluggy==1.6.0", "iniconfig==2.1.0", "packaging==25.0", "pygments==2.19.2",
		"pytest-mock==3.15.1", "pytest-timeout==2.4.0", "lz4==4.4.4", "zstandard==0.25.0", "cramjam==2.11.0", "python-snappy==0.7.3")
	if err != nil {
		return "", "", "", err
	}
	source, err = testenv.Install("interop/kafka-python-"+kafkaPythonVersion, "the source of kafka-python "+kafkaPythonVersion+" from PyPI", func(dir string) error {
		if err := testenv.RunPip(ctx, python, "download", "--no-binary", ":all:", "-d", dir, "kafka-python=="+kafkaPythonVersion); err != nil {
			return err
		}
		_, err := testenv.Command(ctx, dir, "tar", "-xzf", "kafka_python-"+kafkaPythonVersion+".tar.gz")
		return err
	})
	return python, packages, filepath.Join(source, "kafka_python-"+kafkaPythonVersion), err
}

// TestKafkaPythonSuite runs the integration tests of kafka-python against one broker. Its source
// archive lacks two modules of the tests; those of testdata replace them and log in.
func TestKafkaPythonSuite(t *testing.T) {
	testenv.InteropWanted(t)
	python, packages, source, err := kafkaPython(t.Context())
	must.NoError(t, err)
	dir := t.TempDir()
	must.NoError(t, os.CopyFS(dir, os.DirFS(source)))
	must.NoError(t, os.CopyFS(filepath.Join(dir, "test"), os.DirFS("testdata/python/kafkapython")))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "test", "__init__.py"), nil, 0o600))

	b := testenv.ServeInterop(t, "--default-partitions", "4") // as in the suite's settings of Kafka
	begin := time.Now()
	c := exec.CommandContext(t.Context(), python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", "--timeout-method=signal",
		"--tb=short", "-o", "log_level=ERROR", "--junitxml=results.xml", "test/integration")
	c.Dir = dir
	c.Env = append(os.Environ(), "PYTHONPATH="+packages+":"+dir, "KAFKA_URI=kafka://"+b.Address, "KAFKA_VERSION="+kafkaPythonKafka,
		"KAFKA_ROOT="+dir, "KEY="+testenv.InteropKey)
	out, _ := c.CombinedOutput() // it fails with any of its tests
	var results struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "results.xml"))
	if err == nil {
		err = xml.Unmarshal(text, &results)
	}
	must.NoErrorf(t, err, "%s", out)
	counts, seen := map[string]int{}, map[string]bool{}
	for _, x := range results.Cases {
		end := "PASS"
		switch {
		case x.Failure != nil || x.Error != nil:
			end = fails
		case x.Skipped != nil:
			end = skips
		}
		if seen[x.Name] && end == fails {
			continue // the end of a test that has failed
		}
		seen[x.Name] = true
		counts[end]++
		name, _, _ := strings.Cut(x.Name, "[")
		if listed := kafkaPythonNot[name]; end != cmp.Or(listed.end, "PASS") {
			t.Errorf("%s: %s, want %s %s", x.Name, end, cmp.Or(listed.end, "PASS"), listed.reason)
		}
	}
	if n := counts["PASS"] + counts[fails] + counts[skips]; n != kafkaPythonTests {
		t.Errorf("the suite has %d tests, want %d: check the new ones, and update kafkaPythonTests", n, kafkaPythonTests)
	}
	if t.Failed() {
		t.Logf("%s", out[max(0, len(out)-4*saidMax):])
	}
	report(t, "kafka-python", "its integration tests", time.Since(begin), fmt.Sprintf("%d passed, %d failed as listed, %d skipped themselves",
		counts["PASS"], counts[fails], counts[skips]))
}
