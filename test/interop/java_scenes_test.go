package interop

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const quit = syscall.SIGQUIT

// TestMillionRecords writes with every codec, keys, headers, times and null values, kills the
// broker, and checks each record.
func TestMillionRecords(t *testing.T) {
	testenv.InteropWanted(t)
	const records = 1_000_000
	b := testenv.ServeInterop(t)
	create(t, b, "million", 6)
	n := strconv.Itoa(records)
	begin := time.Now()
	scene(t, b, "", "fill", "million", n)
	produced := time.Since(begin)
	b.Restart(0)
	begin = time.Now()
	scene(t, b, "", "check", "million", n, "read_uncommitted")
	consumed := time.Since(begin)
	scene(t, b, "", "check", "million", n, "read_committed")
	testenv.Report(javaClient, "1,000,000 records of five codecs, each looked at, after a kill",
		produced+time.Since(begin), testenv.Rate("produced", records, produced), testenv.Rate("consumed", records, consumed))
}

// create creates a topic with the tool.
func create(t testing.TB, b *testenv.InteropBroker, topic string, partitions int) {
	t.Helper()
	tool(t, b, topicsTool, "--create", "--topic", topic, "--partitions", strconv.Itoa(partitions))
}

// TestProducerOverKills: a producer with default settings continues while the broker is killed. No
// record is lost, duplicated or out of order.
func TestProducerOverKills(t *testing.T) {
	testenv.InteropWanted(t)
	const (
		kills      = 6
		records    = 60_000
		partitions = 3
		topic      = "sequence"
	)
	b := testenv.ServeInterop(t)
	create(t, b, topic, partitions)
	begin := time.Now()
	var confirmed atomic.Int64
	p := start(t, classes(t), func(line string) {
		if n, err := strconv.ParseInt(strings.TrimPrefix(line, "confirmed "), 10, 64); err == nil {
			confirmed.Store(n)
		}
	}, "Interop", "feed", settings(t, b), topic, strconv.Itoa(partitions), strconv.Itoa(records), "15000")
	for i := range kills {
		want := int64(records * (i + 1) / (kills + 2))
		sebtest.Eventually(t, fmt.Sprintf("%d records confirmed", want), func() bool { return confirmed.Load() >= want || ended(p) })
		b.Restart(time.Duration(i) * 100 * time.Millisecond)
	}
	if ended(p) {
		t.Errorf("the producer had ended before the last kill")
	}
	p.wait(4 * time.Minute)
	scene(t, b, "", "judge", topic, strconv.Itoa(partitions), strconv.Itoa(records))
	testenv.Report(javaClient, fmt.Sprintf("idempotent producer over %d kills of the broker: each record once, in order", kills), time.Since(begin))
}

func ended(p *java) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// TestAdmin runs the admin client and checks each answer. Each refusal is Kafka's exception.
func TestAdmin(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	scene(t, b, "admin: cluster, topics, settings, partitions, folders", "admin")
	scene(t, b, "admin: offsets by time, records deleted, stamped times", "records")
	scene(t, b, "admin: groups, their offsets and members", "groups")
}

// TestAccess covers PLAIN and SCRAM, with the key and with a wrong one.
func TestAccess(t *testing.T) {
	testenv.InteropWanted(t)
	scene(t, testenv.ServeInterop(t), "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; wrong keys and none refused", "access", testenv.InteropKey)
}

// TestOldClients runs clients of older versions, which negotiate versions of requests.
func TestOldClients(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	for _, version := range []string{"0.11.0.3", "2.8.2", "3.9.1"} {
		t.Run(version, func(t *testing.T) {
			path := must.Get(JavaClients(t.Context(), version))(t)
			dir := t.TempDir()
			must.NoError(t, compile(t, path, dir, "old"))
			begin := time.Now()
			config := settings(t, b)
			// Its SCRAM needs a class that Java removed after version 8.
			if strings.HasPrefix(version, "0.") {
				config = settingsAs(t, b, login{"seb", testenv.InteropKey, "PLAIN"})
			}
			start(t, dir+":"+path, nil, "Smoke", config, "old-"+version).wait(2 * time.Minute)
			testenv.Report("Java "+version, "topic, idempotent producer, two consumers of a group", time.Since(begin))
		})
	}
}
