package torture

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/testenv"
)

// writers is the number of topics that are written, each by one goroutine.
const writers = 4

// backupRun is the lifetime of a bucket.
type backupRun struct {
	t              *testing.T
	program        string
	rng            *rand.Rand
	env            []string
	bucket, backup string
	dir            string
	port           int

	mu     sync.Mutex // guards broker and acked
	broker *testenv.Broker
	acked  [writers]int64 // records of topics "t0", "t1", ...: the value of each is its offset

	kills, backups, killed, restores int
}

func TestBackup(t *testing.T) {
	t.Parallel()
	life, seed := cmp.Or(*lifeFlag, 4*time.Second), cmp.Or(*seedFlag, uint64(time.Now().UnixNano()))
	t.Logf("-seed %d", seed)
	for name, places := range map[string]func(t *testing.T, s3 *testenv.S3Server, dir string) (bucket, backup string){
		"S3 to folder": func(_ *testing.T, s3 *testenv.S3Server, dir string) (string, string) {
			return s3.Spec("live"), filepath.Join(dir, "backup")
		},
		"folder to S3": func(_ *testing.T, s3 *testenv.S3Server, dir string) (string, string) {
			return filepath.Join(dir, "bucket"), s3.Spec("backup")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3 := testenv.S3ForTest(t)
			r := &backupRun{
				t: t, program: testenv.Program(t), rng: stream(seed, streamPlan), dir: t.TempDir(), port: testenv.PortForTest(t), env: environment(apiKey),
			}
			r.bucket, r.backup = places(t, s3, r.dir)
			r.live(life, stream(seed, streamNemesis))
		})
	}
}

// serve starts the broker, on the port of its first start.
func (r *backupRun) serve() {
	b, err := testenv.Serve(r.program, r.env,
		"--bucket", r.bucket, "--data-dir", filepath.Join(r.dir, "data"), "--http-port", strconv.Itoa(r.port), "--kafka-listen", "",
		"--batch-wait-time", "2ms", "--pack-bytes", "65536", "--pack-age", "100ms", "--merge-interval", "200ms", "--snapshot-slots", "50")
	if err == nil {
		_, err = b.Address(filepath.Join(r.dir, "data"))
	}
	if err != nil {
		r.t.Error(err)
		return
	}
	r.mu.Lock()
	r.broker = b
	r.mu.Unlock()
}

func (r *backupRun) live(life time.Duration, kills *rand.Rand) {
	r.serve()
	if r.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), life)
	defer cancel()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { r.write(ctx, i) })
	}
	wg.Go(func() {
		for sleep(ctx, 300*time.Millisecond+time.Duration(kills.Int64N(int64(1500*time.Millisecond)))) {
			r.broker.Kill()
			r.kills++
			r.serve()
		}
	})
	for ctx.Err() == nil && !r.t.Failed() {
		r.once()
	}
	wg.Wait()
	r.broker.Kill()
	r.finish(life)
}

// write produces values, and counts which were acknowledged.
func (r *backupRun) write(ctx context.Context, i int) {
	c, err := client.New(fmt.Sprintf("http://127.0.0.1:%d", r.port), client.Options{APIKey: apiKey, RetryTime: time.Minute})
	if err != nil {
		r.t.Error(err)
		return
	}
	defer c.Close()
	for n := int64(0); ctx.Err() == nil; {
		values := make([][]byte, 1+n%20)
		for k := range values {
			values[k] = strconv.AppendInt(nil, n+int64(k), 10)
		}
		// Not ctx: the client repeats the request until it knows the outcome, so that values are
		// offsets.
		res, err := c.ProduceValues(r.t.Context(), fmt.Sprintf("t%d", i), values, client.ProduceOptions{})
		if err != nil || res[0].First != n {
			r.t.Errorf("produce offset %d: %+v, %v", n, res, err)
			return
		}
		n += int64(len(values))
		r.mu.Lock()
		r.acked[i] = n
		r.mu.Unlock()
	}
}

// seb runs a command; after a time it is killed.
func (r *backupRun) seb(killAfter time.Duration, args ...string) (out string, killed bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	if killAfter > 0 {
		ctx, cancel = context.WithTimeout(r.t.Context(), killAfter)
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, args...) // ends it with SIGKILL
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), r.env...)
	b, err := cmd.CombinedOutput()
	if err != nil && (killAfter == 0 || ctx.Err() == nil) {
		r.t.Errorf("seb %s: %v\n%s", strings.Join(args, " "), err, b)
	}
	return string(b), err != nil
}

// once makes a backup, possibly an interrupted one, and checks the restore points.
func (r *backupRun) once() {
	least := r.acknowledged()
	var after time.Duration
	if r.rng.IntN(2) == 0 {
		after = time.Millisecond + time.Duration(r.rng.Int64N(int64(150*time.Millisecond)))
	}
	r.backups++
	if _, killed := r.seb(after, "backup", "--bucket", r.bucket, "--to", r.backup, "--keep", "3"); killed {
		r.killed++
		return
	}
	r.check("", least)
}

func (r *backupRun) acknowledged() [writers]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked
}

// check restores a restore point, the newest if it is not named, and compares it with what was
// acknowledged before.
func (r *backupRun) check(at string, least [writers]int64) {
	r.restores++
	to := filepath.Join(r.dir, fmt.Sprintf("restored-%d", r.restores))
	defer os.RemoveAll(to)
	data := filepath.Join(r.dir, "restored-data")
	args := []string{"restore", "--from", r.backup, "--bucket", to, "--data-dir", data}
	if at != "" {
		args = append(args, "--at", at)
	}
	r.seb(0, args...)
	r.seb(0, "fsck", "--bucket", to)
	b, err := seb.Open(r.t.Context(), seb.Options{Bucket: to, DataDir: data, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Errorf("restored: %v", err)
		return
	}
	defer b.Close(context.Background())
	acked := r.acknowledged()
	for i, want := range least {
		topic, n := fmt.Sprintf("t%d", i), int64(0)
		if want == 0 {
			continue
		}
		for rec, err := range b.Records(r.t.Context(), topic, seb.ReadOptions{}) {
			if err != nil || string(rec.Value) != strconv.FormatInt(n, 10) {
				r.t.Errorf("restored %s: %v at offset %d, %v", topic, rec, n, err)
				return
			}
			n++
		}
		if n < want {
			r.t.Errorf("restored %s has %d records, %d were acknowledged before the backup began", topic, n, want)
		}
		first, err := b.Produce(r.t.Context(), topic, 0, record.Record{Value: []byte("after")})
		if err != nil || first < acked[i] {
			r.t.Errorf("the restored %s continues at offset %d, the bucket has reached %d: %v", topic, first, acked[i], err)
		}
	}
}

// finish checks a last backup and the restore points before it, and moves the log to a third
// bucket.
func (r *backupRun) finish(life time.Duration) {
	if r.t.Failed() {
		return
	}
	r.seb(0, "backup", "--bucket", r.bucket, "--to", r.backup, "--keep", "3", "--verify")
	list, _ := r.seb(0, "backup", "--to", r.backup, "--list")
	for line := range strings.Lines(list) {
		at, _, _ := strings.Cut(line, " ")
		r.check(at, [writers]int64{})
	}
	r.check("", r.acknowledged())
	acked := r.acknowledged()
	r.t.Logf("%v: %d records acknowledged, %d kills of the broker, %d backups, %d of them killed, %d restored copies", life,
		acked[0]+acked[1]+acked[2]+acked[3], r.kills, r.backups, r.killed, r.restores)
	if r.kills == 0 || r.killed == 0 || r.restores < 3 || acked[0] == 0 {
		r.t.Log("the run is too short to cover much")
	}
}
