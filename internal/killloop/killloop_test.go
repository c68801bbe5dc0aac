package killloop

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/program"
	"github.com/sebbroker/seb/internal/s3server"
)

// acksBetween is the least number of acknowledgements between two kills.
const acksBetween = 200

// loop is one run on one bucket.
type loop struct {
	t       *testing.T
	rng     *rand.Rand
	dir     string
	bucket  string
	env     []string
	wipe    func(kill int) bool // whether to delete the data folder after a kill
	kills   int
	early   int // kills before the broker was ready, besides
	ledger  *ledger
	target  atomic.Pointer[client.Client]
	failed  chan error
	current *program.Broker
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func newLoop(t *testing.T, kills int) *loop {
	t.Helper()
	seed := number(t, "SEB_KILL_SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("SEB_KILL_SEED=%d SEB_KILLS=%d go test ./internal/killloop -run %s", seed, kills, t.Name())
	l := &loop{
		t: t, rng: rand.New(rand.NewPCG(uint64(seed), 1)), dir: t.TempDir(), kills: kills,
		failed: make(chan error, producers), env: []string{"SEB_API_KEY=" + apiKey},
	}
	var err error
	if l.ledger, err = newLedger(l.ledgerFile()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.ledger.file.Close() })
	return l
}

func TestDisk(t *testing.T) {
	l := newLoop(t, number(t, "SEB_KILLS", 6))
	l.bucket = filepath.Join(l.dir, "bucket")
	l.wipe = func(int) bool { return l.rng.IntN(3) == 0 }
	l.run()
}

func TestS3(t *testing.T) {
	s3 := s3server.ForTest(t)
	l := newLoop(t, number(t, "SEB_KILLS", 4))
	l.bucket = s3.Spec("kill/loop")
	l.env = append(l.env, "AWS_ACCESS_KEY_ID="+s3server.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3server.SecretKey)
	l.wipe = func(int) bool { return true }
	l.run()
}

func (l *loop) ledgerFile() string { return filepath.Join(l.dir, "ledger") }
func (l *loop) dataDir() string    { return filepath.Join(l.dir, "data") }

// batchWaits are chosen from at each start: some keep several objects in flight, some make large ones.
var batchWaits = []string{"0s", "1ms", "5ms", "20ms"}

func (l *loop) start() {
	l.current = start(l.t, l.env, "--bucket", l.bucket, "--data-dir", l.dataDir(), "--http-port", "0",
		"--batch-wait-time", batchWaits[l.rng.IntN(len(batchWaits))])
}

// open waits until the current broker is ready and points the producers at it.
func (l *loop) open() *client.Client {
	l.t.Helper()
	address, err := l.current.Address(l.dataDir())
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := client.New(address, client.Options{APIKey: apiKey, RetryTime: -1})
	if err != nil {
		l.t.Fatal(err)
	}
	if old := l.target.Swap(c); old != nil {
		old.Close()
	}
	return c
}

func (l *loop) clean(kill int) {
	if l.wipe(kill) {
		if err := os.RemoveAll(l.dataDir()); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *loop) run() {
	began := time.Now()
	l.start()
	c := l.open()
	if _, err := c.CreateTopic(l.t.Context(), topic, client.TopicSpec{Partitions: partitions}); err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for n := range producers {
		p := &producer{number: n, rng: rand.New(rand.NewPCG(l.rng.Uint64(), 2)), ledger: l.ledger, target: &l.target}
		wg.Go(func() {
			if err := p.run(ctx); err != nil {
				l.failed <- err
			}
		})
	}
	for kill := range l.kills {
		l.waitAcks()
		time.Sleep(time.Duration(l.rng.IntN(int(40 * time.Millisecond)))) // the random moment
		l.current.Kill()
		l.clean(kill)
		l.killEarly()
		l.start()
		l.open()
	}
	l.waitAcks()
	cancel()
	wg.Wait()
	l.current.Kill()
	l.finish(began)
}

// killEarly kills, now and then, a broker that is still starting: while it reads the log, seals, or checks the store.
func (l *loop) killEarly() {
	for l.rng.IntN(4) == 0 {
		l.start()
		time.Sleep(time.Duration(l.rng.IntN(int(150 * time.Millisecond))))
		l.current.Kill()
		l.early++
	}
}

// waitAcks waits for acksBetween acknowledgements by the current broker.
func (l *loop) waitAcks() {
	l.t.Helper()
	want := l.ledger.acks.Load() + acksBetween
	end := time.After(program.ReadyTime)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for l.ledger.acks.Load() < want {
		select {
		case err := <-l.failed:
			l.t.Fatalf("%v\n%s", err, l.current.Log())
		case <-l.current.Done():
			l.t.Fatalf("broker ended by itself: %s", l.current.Log())
		case <-end:
			l.t.Fatalf("no %d acknowledgements in %v\n%s", acksBetween, program.ReadyTime, l.current.Log())
		case <-tick.C:
		}
	}
}

// finish reads all back from the bucket alone, and stops the last broker the polite way.
func (l *loop) finish(began time.Time) {
	if err := os.RemoveAll(l.dataDir()); err != nil {
		l.t.Fatal(err)
	}
	l.start()
	r := verify(l.t.Context(), l.t, l.open(), l.ledgerFile())
	if code := l.current.Stop(); code != 0 {
		l.t.Errorf("exit code %d after SIGTERM\n%s", code, l.current.Log())
	}
	l.t.Logf("%d kills (and %d while starting), %d acknowledgements of %d records, %d unknown outcomes of %d records of which %d are there, %d records read back, %v",
		l.kills, l.early, l.ledger.acks.Load(), r.ackedRecords, l.ledger.doubt.Load(), r.unknownRecords, r.unknownFound,
		r.records, time.Since(began).Round(time.Millisecond))
}
