package atomics_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	bucketFlag = flag.String("bucket", "journal", "bucket of the tests that kill brokers: journal, folder or s3")
	turnsFlag  = flag.Int("turns", 0, "times that they kill at every failpoint; 0: at five of them")
	timeFlag   = flag.Duration("time", 0, "time for which the tests kill at least, at all failpoints")
	lifeFlag   = flag.Duration("life", 300*time.Millisecond, "mean life of a broker")
	killSeed   = flag.Uint64("kill-seed", 0, "seed of these tests; 0: a fresh one")
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const producers = 8

// TestKills kills brokers at failpoints and by a signal, and lets them take over from each other, beside
// producers of atomic requests: records of two topics, messages of a queue, of which some are delayed, and
// events. Readers of all of them never see a part of a request. In the end, requests that were acknowledged
// are there once with the offsets of their answers, and those that were refused are not.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program, and kills it")
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-kill-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	c := newBrokers(t, *bucketFlag)
	if !c.start(0, "") {
		t.Fatal(c.runs[0].Log())
	}
	c.must("PUT", "/topic?topic-name=orders", `{"partitions":2}`, nil)
	c.must("PUT", "/topic?topic-name=invoices", `{"partitions":2}`, nil)
	c.must("PUT", "/queues/mails", `{"settings":{"visibility":"2s"}}`, nil)
	l := newLedger(c)
	ctx, stop := context.WithCancel(t.Context())
	reading, stopReading := context.WithCancel(t.Context())
	var sending, watching sync.WaitGroup
	for i := range producers {
		sending.Go(func() { l.produce(ctx, seed, i) })
	}
	watching.Go(func() { l.follow(reading) })
	for range 2 {
		watching.Go(func() { l.work(reading) })
	}
	c.disturb(true)
	c.chaos(r)
	c.disturb(false)
	stop()
	if !c.start(0, "") {
		t.Error(c.runs[0].Log())
	}
	sending.Wait()
	l.drained()
	stopReading()
	watching.Wait()
	l.judge()
	t.Logf("%d brokers killed, at %d failpoints; %d takeovers from a broker that lives", c.kills, len(c.points), c.over)
	t.Logf("failpoints: %v", slices.Sorted(maps.Keys(c.points)))
	if c.kills == 0 || c.over == 0 || len(c.points) == 0 {
		t.Error("nothing was tested")
	}
}

// chaos makes the rounds of the flags.
func (c *brokers) chaos(r *rand.Rand) {
	var points []string
	for _, name := range failpoint.Names {
		if c.reachable(name, *bucketFlag == "journal") {
			points = append(points, name)
		}
	}
	if *turnsFlag == 0 && *timeFlag == 0 {
		points = []string{"put.data.before", "put.data.after", "", "commit.before-answer", "commit.after-answer", ""}
	}
	slot, began := 1, time.Now()
	for turn := 0; turn < max(1, *turnsFlag) || time.Since(began) < *timeFlag; turn++ {
		r.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		for i, point := range points {
			c.round(r, slot, point, *lifeFlag)
			if slot = 1 - slot; c.proxy != nil && r.IntN(8) == 0 {
				c.proxy.Block(time.Duration(r.IntN(1000)) * time.Millisecond)
			}
			if c.t.Failed() {
				return
			}
			if i%20 == 19 {
				c.t.Logf("turn %d, round %d", turn, i)
			}
		}
	}
}

// placeOf names where a record or message is.
func placeOf(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s/%d/%d", topic, partition, offset)
}
