package interop

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/testenv"
)

const perfTool = "org.apache.kafka.tools.ProducerPerformance"

// TestQuotas manages quotas with kafka-configs, and lets kafka-producer-perf-test meet one. The
// scenes share a broker and depend on each other.
func TestQuotas(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	createTopic(t, b, "orders", 1)
	setPassword(t, b, ann.user, ann.password)
	tool(t, b, aclsTool, "--add", "--allow-principal", "User:ann", "--operation", "Write", "--topic", "orders")
	for _, scene := range []struct {
		name string
		run  func(*testing.T, *testenv.InteropBroker)
	}{
		{"kafka-configs sets, describes and deletes quotas", quotasScene},
		{"kafka-producer-perf-test is throttled", throttledScene},
	} {
		begin := time.Now()
		if !t.Run(scene.name, func(t *testing.T) { scene.run(t, b) }) {
			break
		}
		testenv.Report("quotas "+JavaVersion, scene.name, time.Since(begin))
	}
}

// quotaOf is the arguments for the quota of ann, or of the default user.
func quotaOf(entity string, args ...string) []string {
	all := []string{"--entity-type", "users"}
	if entity == "" {
		all = append(all, "--entity-default")
	} else {
		all = append(all, "--entity-name", entity)
	}
	return append(all, args...)
}

func quotasScene(t *testing.T, b *testenv.InteropBroker) {
	alter := func(entity string, args ...string) string {
		return tool(t, b, configsTool, append([]string{"--alter"}, quotaOf(entity, args...)...)...)
	}
	describe := func(args ...string) string {
		return tool(t, b, configsTool, append([]string{"--describe", "--entity-type", "users"}, args...)...)
	}
	says(t, alter("ann", "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2097152"), "Completed updating config for user ann")
	says(t, alter("", "--add-config", "consumer_byte_rate=5242880"), "Completed updating default config for users")
	const (
		annShown     = "Quota configs for user-principal 'ann' are "
		defaultShown = "Quota configs for the default user-principal are "
	)
	says(t, describe(), annShown, "producer_byte_rate=1048576", "consumer_byte_rate=2097152", defaultShown+"consumer_byte_rate=5242880")
	if out := describe("--entity-name", "ann"); !strings.Contains(out, annShown) || strings.Contains(out, defaultShown) {
		t.Errorf("the quota of ann:\n%s", out)
	}
	if out := describe("--entity-default"); strings.Contains(out, annShown) || !strings.Contains(out, defaultShown) {
		t.Errorf("the default quota:\n%s", out)
	}
	if out := tool(t, b, configsTool, "--describe", "--entity-type", "clients"); strings.Contains(out, "rate") {
		t.Errorf("the quotas of client IDs:\n%s", out)
	}
	says(t, alter("ann", "--delete-config", "consumer_byte_rate"), "Completed updating config for user ann")
	says(t, alter("", "--delete-config", "consumer_byte_rate"), "Completed updating default config for users")
	if out := describe(); !strings.Contains(out, annShown+"producer_byte_rate=1048576") || strings.Contains(out, "consumer_byte_rate") {
		t.Errorf("after the deletion:\n%s", out)
	}
	for sentence, args := range map[string][]string{
		"request_percentage\" is not supported":    {"--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", "request_percentage=50"},
		`entity type "client-id" is not supported`: {"--alter", "--entity-type", "clients", "--entity-name", "app", "--add-config", "producer_byte_rate=1"},
	} {
		if out := refusal(t, b, configsTool, args...); !strings.Contains(out, sentence) {
			t.Errorf("kafka-configs %v: want %q in:\n%s", args, sentence, out)
		}
	}
}

// refusal runs a tool that fails and returns its output.
func refusal(t *testing.T, b *testenv.InteropBroker, class string, args ...string) string {
	t.Helper()
	return console(t, b, login{"root", testenv.InteropKey, "PLAIN"}, class, args...)
}

var (
	perfResult    = regexp.MustCompile(`(\d+) records sent, ([\d.]+) records/sec`)
	throttleShown = regexp.MustCompile(`produce-throttle-time-max\S*\s*:\s*([\d.]+)`)
)

// throttledScene sends 20 MiB with a quota of 1 MiB a second, of which one second is the burst.
func throttledScene(t *testing.T, b *testenv.InteropBroker) {
	const records, size = 20 << 10, 1 << 10
	out := console(t, b, ann, perfTool, "--topic", "orders", "--num-records", strconv.Itoa(records), "--record-size", strconv.Itoa(size), "--throughput", "-1", "--print-metrics")
	result, throttle := perfResult.FindAllStringSubmatch(out, -1), throttleShown.FindStringSubmatch(out)
	if len(result) == 0 || throttle == nil {
		t.Fatalf("no result:\n%s", out)
	}
	last := result[len(result)-1]
	rate, _ := strconv.ParseFloat(last[2], 64)
	most, _ := strconv.ParseFloat(throttle[1], 64)
	seconds := records / rate
	t.Logf("%d MiB in %.1f s, largest throttle time %.0f ms", records*size>>20, seconds, most)
	if last[1] != strconv.Itoa(records) || seconds < 18 || most <= 0 {
		t.Errorf("%s records in %.1f s, largest throttle time %.0f ms; want %d in at least 18 s, throttled", last[1], seconds, most, records)
	}
	check.Equalf(t, ends(t, b, "orders")[0], records, "records are stored")
}
