package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
)

// busyBroker writes to a keyed topic until it is killed, and reports the position of its index
// after each hundred batches.
func busyBroker(t *testing.T, dir string) {
	n, err := Open(context.Background(), busyOptions(dir))
	must.NoError(t, err)
	_, err = n.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 2, Settings: map[string]string{"key-index": "true"}})
	if err != nil && !errors.Is(err, state.ErrTopicExists) {
		t.Fatal(err)
	}
	info := must.Get(n.Topic(t.Context(), "t", false))(t)
	for i := 0; ; i++ {
		part := rand.IntN(2)
		recs := make([]record.Record, 200)
		for j := range recs {
			// A key is in one partition.
			recs[j] = record.Record{Key: fmt.Appendf(nil, "key-%d", 2*rand.IntN(3_000)+part), Timestamp: 1}
			if rand.IntN(5) > 0 {
				recs[j].Value = []byte("value")
			}
		}
		last := brokertest.Produce(t, n, "t", part, recs...)
		if i%100 == 99 {
			must.NoError(t, n.Keys().WaitFor(t.Context(), info.ID, uint32(part), last))
			fmt.Println("view has", i)
		}
	}
}

// killed runs a child until its index has some records, and kills it a moment later.
func killed(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledBrokers$", "-test.count=1")
	child.Env = append(os.Environ(), keysChild+"="+dir)
	child.Stderr = os.Stderr
	out := must.Get(child.StdoutPipe())(t)
	must.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for range 1 + rand.IntN(3) {
		if !lines.Scan() {
			t.Fatalf("the child has ended: %v", child.Wait())
		}
	}
	time.Sleep(rand.N(50 * time.Millisecond)) // the random moment
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // the error of the killed process
}
