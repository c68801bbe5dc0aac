package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// The classes of Kafka's scripts.
const (
	topicsTool   = "org.apache.kafka.tools.TopicCommand"
	groupsTool   = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	configsTool  = "kafka.admin.ConfigCommand"
	offsetsTool  = "org.apache.kafka.tools.GetOffsetShell"
	deleteTool   = "org.apache.kafka.tools.DeleteRecordsCommand"
	dirsTool     = "org.apache.kafka.tools.LogDirsCommand"
	versionsTool = "org.apache.kafka.tools.BrokerApiVersionsCommand"
	producerTool = "org.apache.kafka.tools.ConsoleProducer"
	aclsTool     = "org.apache.kafka.tools.AclCommand"
	consumerTool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	writeTool    = "org.apache.kafka.tools.VerifiableProducer"
	readTool     = "org.apache.kafka.tools.VerifiableConsumer"
	txnTool      = "org.apache.kafka.tools.TransactionsCommand"
)

// tool runs a command line tool to its end and returns its output.
func tool(t testing.TB, b *testenv.InteropBroker, class string, args ...string) string {
	t.Helper()
	p := start(t, classes(t), nil, class, append([]string{"--bootstrap-server", b.Address, "--command-config", settings(t, b)}, args...)...)
	p.wait(2 * time.Minute)
	return p.Log()
}

// says checks that a tool's output contains some texts, and neither a warning nor an error.
func says(t testing.TB, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("want %q in:\n%s", text, out)
		}
	}
	for _, bad := range []string{"Exception", "ERROR", "Error"} {
		if strings.Contains(out, bad) {
			t.Errorf("%s in:\n%s", bad, out)
		}
	}
}

// piped runs a tool with input.
func piped(t testing.TB, b *testenv.InteropBroker, input, class string, args ...string) string {
	t.Helper()
	file := filepath.Join(b.Dir, "input")
	must.NoError(t, os.WriteFile(file, []byte(input), 0o600))
	all := append(append(JavaFlags(classes(t)), class, "--bootstrap-server", b.Address, "--command-config", settings(t, b)), args...)
	out := must.Get(testenv.Command(t.Context(), ".", "sh", append([]string{"-c", `exec java "$@" <"$0"`, file}, all...)...))(t)
	return out
}

// TestTools runs Kafka's command line tools and checks their output.
func TestTools(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *testenv.InteropBroker)
	}{
		{"kafka-topics", topicsScene},
		{"kafka-console-producer and -consumer", consoleScene},
		{"kafka-get-offsets, kafka-delete-records, kafka-log-dirs", offsetsScene},
		{"kafka-consumer-groups", groupsScene},
		{"kafka-configs", configsScene},
		{"kafka-transactions", transactionsScene},
		{"kafka-broker-api-versions", versionsScene},
		{"kafka-verifiable-producer and -consumer", verifiableScene},
	} {
		begin := time.Now()
		if t.Run(step.name, func(t *testing.T) { step.run(t, b) }) {
			testenv.Report("tools "+JavaVersion, step.name, time.Since(begin))
		}
	}
}

func topicsScene(t *testing.T, b *testenv.InteropBroker) {
	out := tool(t, b, topicsTool, "--create", "--topic", "tools", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=7200000")
	says(t, out, "Created topic tools.")
	tool(t, b, topicsTool, "--create", "--topic", "tools-gone")
	says(t, tool(t, b, topicsTool, "--create", "--if-not-exists", "--topic", "tools-gone"))
	says(t, tool(t, b, topicsTool, "--list"), "tools\n", "tools-gone")
	says(t, tool(t, b, topicsTool, "--describe", "--topic", "tools"), "PartitionCount: 2", "ReplicationFactor: 1", "retention.ms=7200000",
		fmt.Sprint("Leader: ", nodeID(t, b)), fmt.Sprint("Isr: ", nodeID(t, b)))
	tool(t, b, topicsTool, "--alter", "--topic", "tools", "--partitions", "3")
	says(t, tool(t, b, topicsTool, "--describe", "--topic", "tools"), "PartitionCount: 3")
	if out := tool(t, b, topicsTool, "--describe", "--unavailable-partitions"); strings.TrimSpace(out) != "" {
		t.Errorf("unavailable partitions: %s", out)
	}
	tool(t, b, topicsTool, "--delete", "--topic", "tools-gone")
	if out := tool(t, b, topicsTool, "--list"); strings.Contains(out, "tools-gone") {
		t.Errorf("after the deletion:\n%s", out)
	}
}

func consoleScene(t *testing.T, b *testenv.InteropBroker) {
	var in strings.Builder
	for n := range 100 {
		fmt.Fprintf(&in, "h:%d\tk%d\tvalue %d\n", n, n, n)
	}
	piped(t, b, in.String(), producerTool, "--topic", "tools", "--compression-codec", "zstd",
		"--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
	out := tool(t, b, consumerTool, "--topic", "tools", "--from-beginning", "--max-messages", "100", "--timeout-ms", "30000", "--group", "console",
		"--formatter-property", "print.key=true", "--formatter-property", "print.headers=true", "--formatter-property", "print.partition=true")
	for n := range 100 {
		says(t, out, fmt.Sprintf("h:%d\tk%d\tvalue %d\n", n, n, n))
	}
	says(t, out, "Processed a total of 100 messages", "Partition:2")
}

func offsetsScene(t *testing.T, b *testenv.InteropBroker) {
	sum := func(args ...string) (n int) {
		t.Helper()
		for line := range strings.Lines(tool(t, b, offsetsTool, append([]string{"--topic", "tools"}, args...)...)) {
			var part, offset int
			check.NoErrorf(t, check.Err(fmt.Sscanf(line, "tools:%d:%d", &part, &offset)), "%q", line)
			n += offset
		}
		return n
	}
	if latest, earliest := sum(), sum("--time", "earliest"); latest != 100 || earliest != 0 {
		t.Errorf("offsets from %d to %d, want 0 to 100", earliest, latest)
	}
	// Several have the time of the last one.
	if newest := sum("--time", "max-timestamp"); newest < 1 || newest >= 100 {
		t.Errorf("the newest are at %d in all, want one for each partition", newest)
	}
	plan := filepath.Join(b.Dir, "delete.json")
	text := `{"partitions":[{"topic":"tools","partition":0,"offset":5},{"topic":"tools","partition":1,"offset":3}],"version":1}`
	must.NoError(t, os.WriteFile(plan, []byte(text), 0o600))
	says(t, tool(t, b, deleteTool, "--offset-json-file", plan), "tools-0\tlow_watermark: 5", "tools-1\tlow_watermark: 3")
	check.Equalf(t, sum("--time", "earliest"), 8, "after 8 records were deleted the sum of the first offsets")
	says(t, tool(t, b, dirsTool, "--describe", "--topic-list", "tools"), fmt.Sprintf(`"broker":%d,`, nodeID(t, b)), `"partition":"tools-2"`, `"error":null`)
}

func groupsScene(t *testing.T, b *testenv.InteropBroker) {
	says(t, tool(t, b, groupsTool, "--list"), "console")
	says(t, tool(t, b, groupsTool, "--list", "--state"), "console", "Empty")
	says(t, tool(t, b, groupsTool, "--describe", "--group", "console", "--state"), "Empty")
	out := tool(t, b, groupsTool, "--reset-offsets", "--group", "console", "--topic", "tools", "--to-earliest", "--execute")
	says(t, out, "tools", "NEW-OFFSET")
	lag := 0
	for line := range strings.Lines(tool(t, b, groupsTool, "--describe", "--group", "console")) {
		var topic, name string
		var part, at, end, behind int
		if _, err := fmt.Sscan(line, &name, &topic, &part, &at, &end, &behind); err == nil {
			lag += behind
		}
	}
	check.Equalf(t, lag, 92, "the lag after a reset to the first record")
	tool(t, b, groupsTool, "--reset-offsets", "--group", "console", "--topic", "tools:0", "--shift-by", "2", "--execute")
	tool(t, b, groupsTool, "--reset-offsets", "--group", "console", "--topic", "tools:1", "--to-datetime", "2099-01-01T00:00:00.000", "--execute")
	says(t, tool(t, b, groupsTool, "--delete-offsets", "--group", "console", "--topic", "tools:2"), "Successful")
	says(t, tool(t, b, groupsTool, "--delete", "--group", "console"), "successful")
	if out := tool(t, b, groupsTool, "--list"); strings.Contains(out, "console") {
		t.Errorf("after the deletion:\n%s", out)
	}
}

func configsScene(t *testing.T, b *testenv.InteropBroker) {
	entity := []string{"--entity-type", "topics", "--entity-name", "tools"}
	with := func(args ...string) []string { return append(args, entity...) }
	says(t, tool(t, b, configsTool, with("--alter", "--add-config", "retention.bytes=1000000,max.message.bytes=500000")...), "Completed updating config for topic tools")
	says(t, tool(t, b, configsTool, with("--describe")...), "retention.bytes=1000000", "max.message.bytes=500000", "retention.ms=7200000")
	tool(t, b, configsTool, with("--alter", "--delete-config", "retention.bytes")...)
	out := tool(t, b, configsTool, with("--describe", "--all")...)
	says(t, out, "cleanup.policy=delete", "max.message.bytes=500000")
	if strings.Contains(out, "retention.bytes=1000000") {
		t.Errorf("after the deletion:\n%s", out)
	}
}

func versionsScene(t *testing.T, b *testenv.InteropBroker) {
	out := tool(t, b, versionsTool)
	says(t, out, fmt.Sprintf("(id: %d rack: null", nodeID(t, b)), "Produce(0): 0 to 13", "Fetch(1): 4 to 18", "InitProducerId(22): 0 to 5",
		"ConsumerGroupHeartbeat(68): 0 to 1", "ShareGroupHeartbeat(76): UNSUPPORTED")
}

func verifiableScene(t *testing.T, b *testenv.InteropBroker) {
	out := tool(t, b, writeTool, "--topic", "verifiable", "--max-messages", "2000", "--acks", "-1")
	says(t, out, `"sent":2000,"acked":2000`)
	out = tool(t, b, readTool, "--topic", "verifiable", "--group-id", "verifiable", "--max-messages", "2000", "--reset-policy", "earliest")
	says(t, out, `"name":"partitions_assigned"`, `"name":"offsets_committed"`)
}

// transactionsScene lists, describes and aborts an open transaction.
func transactionsScene(t *testing.T, b *testenv.InteropBroker) {
	createTopic(t, b, "transactions", 1)
	f := &franz{t: t, b: b, prefix: "tools-", versions: kversion.Stable()}
	c := f.producer("open", time.Minute)
	must.NoError(t, c.BeginTransaction())
	must.NoError(t, send(t, c, "transactions", "one", "two"))
	says(t, tool(t, b, txnTool, "list"), "tools-open", "Ongoing", fmt.Sprint(nodeID(t, b)))
	says(t, tool(t, b, txnTool, "describe", "--transactional-id", "tools-open"), "Ongoing", "transactions-0", "60000")
	out := tool(t, b, txnTool, "describe-producers", "--topic", "transactions", "--partition", "0")
	says(t, out, "LatestCoordinatorEpoch", "CurrentTransactionStartOffset")
	says(t, tool(t, b, txnTool, "find-hanging", "--topic", "transactions", "--max-transaction-timeout", "0"))
	tool(t, b, txnTool, "abort", "--topic", "transactions", "--partition", "0", "--start-offset", "0")
	says(t, tool(t, b, txnTool, "describe", "--transactional-id", "tools-open"), "CompleteAbort")
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("a commit after the abort succeeded")
	}
	must.NoError(t, send(t, f.client(), "transactions", "end"))
	f.expect("transactions", kgo.ReadCommitted())
}
