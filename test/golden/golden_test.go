package golden_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/golden"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestEarlierBuckets opens, compares, writes, restarts, reads and checks each archive of testdata.
func TestEarlierBuckets(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, archive := range archives {
		base := strings.TrimSuffix(archive, ".tar.gz")
		t.Run(filepath.Base(base), func(t *testing.T) {
			bucket := filepath.Join(t.TempDir(), "bucket")
			if strings.HasSuffix(base, "-s3") {
				t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
				t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
				bucket = testenv.S3ForTest(t).Spec("golden")
			}
			testBucket(t, base, bucket)
		})
	}
}

func testBucket(t *testing.T, base, bucket string) {
	f, err := os.Open(base + ".tar.gz")
	must.NoError(t, err)
	defer f.Close()
	journal := strings.HasSuffix(base, "-journal")
	files := !strings.HasSuffix(base, "-s3")
	if files {
		err = golden.UnpackFiles(f, bucket)
		if found, _ := filepath.Glob(bucket + "/s0000/wal/*+journal/00000001"); len(found) == 0 && journal {
			t.Error("the archive holds no journal")
		}
	}
	store := open(t, bucket)
	if !files {
		err = golden.Unpack(t.Context(), f, store)
	}
	must.NoError(t, err)
	text := must.Get(os.ReadFile(base + ".json"))(t)
	var want golden.Expectation
	must.NoError(t, json.Unmarshal(text, &want))

	s, c := serve(t, bucket, t.TempDir())
	compare(t, c, want)
	const path = "/records?topic-name=plain&partition=0"
	must.Get(c.Call(t.Context(), "POST", path, `{"value":"written later"}`, "Content-Type", "application/x-ndjson"))(t)
	must.NoError(t, s.Close(t.Context()))
	_, c = serve(t, bucket, t.TempDir())
	all, err := c.Call(t.Context(), "GET", path+"&offset=0&max-records=100000", "", "Accept", "application/x-ndjson")
	for key, old := range want {
		if err == nil && strings.HasPrefix(key, path) && (!strings.HasPrefix(string(all), old) || !strings.Contains(string(all[len(old):]), "written later")) {
			t.Errorf("after a restart, topic plain does not have the old records and the new one")
		}
	}
	check.NoError(t, err)
	report, err := fsck.Run(t.Context(), fsck.Options{Store: store, Found: func(f fsck.Finding) {
		if f.Severity == fsck.Damage {
			t.Errorf("fsck: %+v", f)
		}
	}})
	if err != nil || report.Packs == 0 || strings.HasSuffix(base, "-s3") && report.Snapshots == 0 {
		t.Errorf("fsck: %+v, %v", report, err)
	}
}

// answerTime bounds the time in which a broker rebuilds the trigger database from the log.
const answerTime = time.Minute

// compare waits until the broker answers as expected. Answers may have more members than those of
// the earlier program.
func compare(t *testing.T, c golden.Caller, want golden.Expectation) {
	t.Helper()
	var wrong string
	for end := time.Now().Add(answerTime); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		got, err := golden.Observe(t.Context(), c)
		if err != nil {
			wrong = err.Error()
			continue
		}
		if wrong = difference(got, want); wrong == "" {
			return
		}
	}
	t.Errorf("after %v: %s", answerTime, wrong)
}

// difference describes the first answer that is missing or different.
func difference(got, want golden.Expectation) string {
	for path, answer := range want {
		var g, w any
		switch {
		case got[path] == answer:
			continue
		case json.Unmarshal([]byte(got[path]), &g) == nil && json.Unmarshal([]byte(answer), &w) == nil && covers(g, w):
			continue
		}
		return fmt.Sprintf("GET %s:\ngot  %.2000s\nwant %.2000s", path, got[path], answer)
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d answers, want %d", len(got), len(want))
	}
	return ""
}

// noTime is how earlier programs wrote a time that does not exist, which is now left out.
const noTime = "0001-01-01T00:00:00Z"

// covers reports whether got equals want, apart from additional members of objects.
func covers(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for name, w := range want {
			v, has := g[name]
			ok = ok && (has && covers(v, w) || !has && w == noTime)
		}
		return ok
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return false
		}
		for i, w := range want {
			if !covers(g[i], w) {
				return false
			}
		}
		return true
	}
	return got == want
}

func open(t *testing.T, bucket string) objstore.Store {
	t.Helper()
	store := must.Get(anystore.Open(t.Context(), bucket, anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(t)
	return store
}

func serve(t *testing.T, bucket, data string) (*server.Server, golden.Caller) {
	t.Helper()
	c := config.Default()
	c.Bucket, c.DataDir, c.HTTP.Port, c.Kafka.Listen, c.Batch.WaitTime, c.AcceptClock = bucket, data, 0, "", 0, true
	s := must.Get(server.Start(t.Context(), c, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s, golden.Caller{Address: s.URL(), APIKey: s.APIKey()}
}
