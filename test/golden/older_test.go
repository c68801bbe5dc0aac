package golden_test

import (
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/test/golden"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	level1 = flag.String("level1", "", "program that knows only format level 1")
	level2 = flag.String("level2", "", "program that knows format levels 1 and 2")
	level3 = flag.String("level3", "", "program that knows format levels 1 to 3")
	level4 = flag.String("level4", "", "program that knows format levels 1 to 4")
	level5 = flag.String("level5", "", "program that knows format levels 1 to 5")
)

// olderProgram is a program of an earlier commit.
type olderProgram struct {
	path  string
	level uint32 // the highest format level that it knows
	code  int    // exit code on a bucket of a higher level
	says  string // its error there; %d is the level
}

// TestOlderPrograms runs older programs on buckets of this version. `go run ./test/cmd/upgrade`
// builds them.
func TestOlderPrograms(t *testing.T) {
	for _, p := range []olderProgram{
		{*level1, 1, 5, "written by a newer version"},
		{*level2, 2, 2, "the bucket is at format level %d, which needs Seb 0.1.0 or newer; this program reads levels up to 2"},
		{*level3, 3, 2, "the bucket is at format level %d, which needs Seb 0.1.0 or newer; this program reads levels up to 3"},
		{*level4, 4, 2, "the bucket is at format level %d, which needs Seb 0.1.0 or newer; this program reads levels up to 4"},
		{*level5, 5, 2, "the bucket is at format level %d, which needs Seb 0.1.0 or newer; this program reads levels up to 5"},
	} {
		t.Run(fmt.Sprintf("level %d", p.level), func(t *testing.T) {
			if p.path == "" {
				t.Skip("needs older programs: go run ./test/cmd/upgrade")
			}
			if strings.Contains(p.says, "%d") {
				p.says = fmt.Sprintf(p.says, state.LevelMax)
			}
			t.Run("continues after this version", p.continues)
			t.Run("refuses a new bucket", func(t *testing.T) {
				bucket := filepath.Join(t.TempDir(), "bucket")
				s, c := serve(t, bucket+"?journal=true", t.TempDir())
				produce(t, c, "new")
				must.NoError(t, s.Close(t.Context()))
				p.refuses(t, bucket)
			})
			t.Run("refuses a raised bucket", func(t *testing.T) {
				bucket := filepath.Join(t.TempDir(), "bucket")
				p.lead(t, bucket, t.TempDir(), "old")
				s, c := serve(t, bucket, t.TempDir())
				must.Get(c.Call(t.Context(), "POST", "/upgrade", ""))(t)
				produce(t, c, "new")
				must.NoError(t, s.Close(t.Context()))
				p.refuses(t, bucket)
			})
			if p.level < state.LevelJournal {
				t.Run("refuses a bucket with journals", p.refusesJournals)
			}
		})
	}
}

// refusesJournals raises a bucket of the older program, which has no journal then, and starts this
// version again, which begins one. The older program gets the bucket as it is while this version
// runs, and after it has stopped.
func (p *olderProgram) refusesJournals(t *testing.T) {
	bucket := filepath.Join(t.TempDir(), "bucket")
	p.lead(t, bucket, t.TempDir(), "old")
	s, c := serve(t, bucket+"?journal=true", t.TempDir())
	must.Get(c.Call(t.Context(), "POST", "/upgrade", ""))(t)
	produce(t, c, "in a file")
	must.NoError(t, s.Close(t.Context()))
	wantClaims(t, bucket, 0)
	s, c = serve(t, bucket+"?journal=true", t.TempDir())
	produce(t, c, "in a journal")
	wantClaims(t, bucket, 1)
	running := filepath.Join(t.TempDir(), "running")
	must.NoError(t, os.CopyFS(running, os.DirFS(bucket)))
	p.refuses(t, running)
	must.NoError(t, s.Close(t.Context()))
	p.refuses(t, bucket)
}

// wantClaims fails unless so many epochs of a bucket have a journal, if the store has journals: a
// file has the name of their folder.
func wantClaims(t *testing.T, bucket string, want int) {
	t.Helper()
	epochs := must.Get(os.ReadDir(filepath.Join(bucket, "s0000", "wal")))(t)
	claims := 0
	for _, e := range epochs {
		if e.Type().IsRegular() && !strings.Contains(e.Name(), "+") {
			claims++
		}
	}
	if _, journals := objstore.As[objstore.Journaler](open(t, bucket)); !journals {
		want = 0
	}
	if claims != want {
		t.Errorf("%d of %d epochs have a journal, want %d", claims, len(epochs), want)
	}
}

// fileSums returns the checksum of each file of a folder, except temporary files.
func fileSums(t *testing.T, dir string) map[string]uint32 {
	t.Helper()
	sums := map[string]uint32{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		sums[path] = crc32.ChecksumIEEE(b)
		return err
	})
	must.NoError(t, err)
	return sums
}

// continues lets the older program and this version lead one bucket in turns, with one data
// directory. The level stays, and so does every record.
func (p *olderProgram) continues(t *testing.T) {
	bucket, data := filepath.Join(t.TempDir(), "bucket"), t.TempDir()
	this := func(value string) string {
		t.Helper()
		s, c := serve(t, bucket, data)
		produce(t, c, value)
		if got, err := c.Call(t.Context(), "GET", "/upgrade", ""); err != nil || !strings.Contains(string(got), fmt.Sprintf(`"level":%d,`, p.level)) {
			t.Errorf("GET /upgrade: %s, %v, want level %d", got, err, p.level)
		}
		got, err := c.Call(t.Context(), "GET", "/records?topic-name=plain&partition=0&offset=0&max-records=100", "", "Accept", api.NDJSON)
		if err = errors.Join(err, s.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	want := []string{"one", "two", "three", "four"}
	p.lead(t, bucket, data, want[0])
	this(want[1])
	p.lead(t, bucket, data, want[2])
	lines := strings.Split(strings.TrimSpace(this(want[3])), "\n")
	must.Equalf(t, len(lines), len(want), "records: %s", lines)
	for i, line := range lines {
		if !strings.Contains(line, `"`+want[i]+`"`) {
			t.Errorf("record %d: %s, want %s", i, line, want[i])
		}
	}
	if _, err := fsck.Run(t.Context(), fsck.Options{Store: open(t, bucket), Found: func(f fsck.Finding) {
		if f.Severity == fsck.Damage {
			t.Errorf("fsck: %+v", f)
		}
	}}); err != nil {
		t.Error(err)
	}
}

// lead runs the older program, which produces a value and stops.
func (p *olderProgram) lead(t *testing.T, bucket, data, value string) {
	t.Helper()
	b := must.Get(testenv.Serve(p.path, []string{"SEB_API_KEY=" + apiKey}, "--bucket", bucket, "--data-dir", data, "--http-port", "0", "--kafka-listen", ""))(t)
	defer b.Kill()
	address := must.Get(b.Address(data))(t)
	produce(t, golden.Caller{Address: address, APIKey: apiKey}, value)
	must.Equalf(t, b.Stop(), 0, "exit code: %s", b.Log())
}

func produce(t *testing.T, c golden.Caller, value string) {
	t.Helper()
	must.Get(c.Call(t.Context(), "POST", "/records?topic-name=plain", `{"value":"`+value+`"}`, "Content-Type", api.NDJSON))(t)
}

// refuses fails unless the older program ends with its exit code and error, and leaves every object
// and file of the bucket unchanged.
func (p *olderProgram) refuses(t *testing.T, bucket string) {
	t.Helper()
	store := open(t, bucket)
	before := must.Get(storetest.Checksums(t.Context(), store))(t)
	files := fileSums(t, bucket)
	b := must.Get(testenv.Serve(p.path, nil, "--bucket", bucket, "--data-dir", t.TempDir(), "--http-port", "0", "--kafka-listen", ""))(t)
	defer b.Kill()
	select {
	case <-b.Done():
		if got, _ := b.Exit(); got != p.code || !strings.Contains(b.Log(), p.says) {
			t.Errorf("exit code %d, want %d and %q: %s", got, p.code, p.says, b.Log())
		}
	case <-time.After(testenv.ReadyTime):
		t.Errorf("the older program does not stop: %s", b.Log())
	}
	after := must.Get(storetest.Checksums(t.Context(), store))(t)
	if now := fileSums(t, bucket); !maps.Equal(files, now) {
		t.Errorf("the older program changed files: %v before, %v after", files, now)
	}
	if !maps.Equal(before, after) {
		t.Errorf("the older program changed the bucket: %d objects before, %d after", len(before), len(after))
	}
}
