package interop

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed testdata/java/streams.xml
var streamsPom []byte

// words is the number of different words.
const words = 100

// writeWords appends each word a number of times.
func writeWords(t *testing.T, c *kgo.Client, times int) {
	t.Helper()
	var all []*kgo.Record
	for i := range words * times {
		all = append(all, &kgo.Record{Topic: "words", Key: []byte(strconv.Itoa(i)), Value: fmt.Appendf(nil, "word %d", i%words)})
	}
	must.NoError(t, c.ProduceSync(t.Context(), all...).FirstErr())
}

// counted reads counts until the last one of each word is at least want, and returns how many are
// above it.
func counted(t *testing.T, c *kgo.Client, last map[string]int, want int) (above int) {
	t.Helper()
	done := func() bool {
		above = 0
		for _, n := range last {
			if n < want {
				return false
			}
			if n > want {
				above++
			}
		}
		return len(last) == words
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for !done() {
		f := c.PollFetches(ctx)
		must.NoErrorf(t, ctx.Err(), "not all of %d words are counted %d times in %v: %v", words, want, timeout, last)
		f.EachRecord(func(r *kgo.Record) {
			n, err := strconv.Atoi(string(r.Value))
			must.NoErrorf(t, err, "count %q", r.Value)
			last[string(r.Key)] = max(n, last[string(r.Key)])
		})
	}
	return above
}

// TestStreams counts words at least once, while the broker is killed, and then the program, whose
// store is restored from its changelog.
func TestStreams(t *testing.T) {
	testenv.InteropWanted(t)
	begin := time.Now()
	lib := must.Get(fetch(t.Context(), "kafka-streams", JavaVersion, streamsPom))(t)
	program := t.TempDir()
	must.NoError(t, compile(t, lib, program, "streams"))
	b := testenv.ServeInterop(t)
	must.Get(admin(t, b).CreateTopics(t.Context(), 3, 1, nil, "words", "counts"))(t)
	c := must.Get(kgo.NewClient(
		kgo.SeedBrokers(b.Address), kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism()), kgo.ConsumeTopics("counts"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	))(t)
	defer c.Close()
	path, last := program+string(filepath.ListSeparator)+lib, map[string]int{}
	count := func() *java {
		p := start(t, path, nil, "Count", settings(t, b), t.TempDir())
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("end of the output of Kafka Streams:\n%s", p.Log())
			}
		})
		return p
	}
	first := count()
	writeWords(t, c, 10)
	counted(t, c, last, 10)
	b.Restart(time.Second)
	writeWords(t, c, 10)
	counted(t, c, last, 20)
	first.Kill()
	writeWords(t, c, 10)
	second := count()
	writeWords(t, c, 10)
	above := counted(t, c, last, 40)
	select {
	case <-second.Done():
		t.Error("the program has ended")
	default:
	}
	testenv.Report("Kafka Streams", "words counted at least once; the broker and the program were killed", time.Since(begin), fmt.Sprintf("%d of %d counted more than once", above, words))
}
