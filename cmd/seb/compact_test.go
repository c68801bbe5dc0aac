package main_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// oftenMerged makes a broker merge, compact and, on S3, collect as often as possible.
var oftenMerged = []string{"--snapshot-slots", "10", "--merge-interval", "10ms", "--pack-age", "10ms", "--pack-bytes", "4MiB", "--batch-wait-time", "1ms"}

// keyOf reads the generated key of a broker.
func (p *workDir) keyOf(dataDir string) string {
	p.t.Helper()
	key := must.Get(os.ReadFile(filepath.Join(p.dir, dataDir, "api-key")))(p.t)
	return strings.TrimSpace(string(key))
}

// post sends JSON lines to a broker, like curl.
func (p *workDir) post(b *running, topic, dataDir string, records ...string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, b.address()+"/records?topic-name="+topic, strings.NewReader(strings.Join(records, "\n")))
	must.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+p.keyOf(dataDir))
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Accept", "*/*")
	resp := must.Get(http.DefaultClient.Do(req))(p.t)
	defer resp.Body.Close()
	must.Equalf(p.t, resp.StatusCode, http.StatusCreated, "%v", resp.Status)
}

// compactedTo waits until a topic has at most n records.
func (p *workDir) compactedTo(b *running, dataDir, topic string, most int64) {
	p.t.Helper()
	cl := must.Get(client.New(b.address(), client.Options{APIKey: p.keyOf(dataDir)}))(p.t)
	defer cl.Close()
	waitFor(p.t, func() bool {
		info := must.Get(cl.Topic(p.t.Context(), topic))(p.t)
		n := int64(0)
		for _, part := range info.Partitions {
			n += part.Records
		}
		return n <= most
	})
}

// tombstone is a JSON record that is large enough to start a compaction: new records must exceed
// the compacted ones.
func tombstone(key string) string {
	return fmt.Sprintf(`{"key":%q,"value":null}`, key+strings.Repeat("y", 10_000))
}

// TestCommandsOnACompactedTopic: the topic has a=3 at offset 3, =4 without a key at 4 and b=6 at 6.
// Its last two offsets have no record.
func TestCommandsOnACompactedTopic(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	b := p.serve(oftenMerged...)
	p.must("topic", "create", "c", "-s", "cleanup-policy=compact", "-s", "delete-retention-time=0s")
	p.mustWith("a=0\na=1\na=2\na=3\n4\n", "produce", "c", "--key-separator", "=")
	p.mustWith("b=5\n", "produce", "c", "--key-separator", "=")
	p.mustWith("b=6\n", "produce", "c", "--key-separator", "=")
	p.post(b, "c", "seb-data", tombstone("x"), tombstone("y"))
	p.post(b, "other", "seb-data", `{"value":"with it the last object of c is merged"}`)
	p.compactedTo(b, "seb-data", "c", 3)

	if got := p.must("topic", "list"); !regexp.MustCompile(`(?m)^c +1 +3 `).MatchString(got) {
		t.Errorf("list: %s", got)
	}
	for args, want := range map[string]string{
		"":                   "3\n4\n6\n",
		"--offset 1":         "3\n4\n6\n",
		"--offset 4":         "4\n6\n",
		"--offset 5 -n 1":    "6\n",
		"--offset 7":         "",
		"--offset 8":         "",
		"-n 2":               "3\n4\n",
		"--format key-value": "a\t3\n\t4\nb\t6\n",
		"--group g -n 1":     "3\n",
		"--offset latest":    "",
	} {
		check.Equalf(t, p.must(append([]string{"consume", "c"}, strings.Fields(args)...)...), want, "consume %s", args)
	}
	check.Equalf(t, p.must("consume", "c", "--group", "g"), "4\n6\n", "the rest of the group")
	if got := p.must("group", "describe", "g"); !regexp.MustCompile(`(?m)^c +0 +9 +0 +9 +0 `).MatchString(got) {
		t.Errorf("describe: %s", got)
	}
	check.Equalf(t, p.must("consume", "c", "--group", "g"), "", "again")

	if r := p.run("export", "--topic", "c", "--to", "old"); r.code != 1 || !strings.Contains(r.err, "compacted") || !strings.Contains(r.err, "partition 0 of topic c has no records at offsets 0 to 2") {
		t.Errorf("export: %+v", r)
	}
	if files, err := filepath.Glob(filepath.Join(p.dir, "old", "c", "*")); err != nil || len(files) != 0 {
		t.Errorf("files of the refused export: %v, %v", files, err)
	}
	p.inspectCompacted(b)
	if got := p.must("fsck"); !strings.Contains(got, "records     4 in 2 topics") || !strings.Contains(got, "damages     0") {
		t.Errorf("fsck: %s", got)
	}
}

// inspectCompacted inspects every pack and the commit objects.
func (p *workDir) inspectCompacted(b *running) {
	p.t.Helper()
	var all strings.Builder
	bucket := filepath.Join(p.dir, "seb-bucket")
	err := filepath.WalkDir(filepath.Join(bucket, "s0000"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all.WriteString(p.must("inspect", path, "--records"))
		}
		return err
	})
	must.NoError(p.t, err)
	for _, want := range []string{
		"offsets 0 to 4, 5 records", "  offsets 0 to 4, 2 records are left\n  3: ", "  offsets 5 to 5, 0 records are left\n", "  offsets 7 to 8, 0 records are left\n",
		"compaction done: topic ", "up to offset 9, tombstones removed below offset 9, 0 kept above",
	} {
		if !strings.Contains(all.String(), want) {
			p.t.Errorf("no %q in:\n%s", want, all.String())
		}
	}
}

// TestExportAndImportOfCompactedTopics: export writes the records before the first gap, and import
// loses none.
func TestExportAndImportOfCompactedTopics(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	b := p.serve(oftenMerged...)
	o := p.old("old/imported")
	for i := range 20 {
		o.add(i%2 == 0, fmt.Sprint("a", i), fmt.Sprint("b", i), "", "same")
	}
	p.must("topic", "create", "imported", "-s", "cleanup-policy=compact", "-s", "delete-retention-time=0s")
	if r := p.run("import", "--from", "old", "--topic", "imported"); r.code != 0 || !strings.Contains(r.err, "have no keys") {
		t.Fatalf("%+v", r)
	}
	p.post(b, "imported", "seb-data", `{"key":"k","value":"1"}`, `{"key":"k","value":"2"}`, tombstone("gone"))
	p.post(b, "other", "seb-data", `{"value":"x"}`)
	p.compactedTo(b, "seb-data", "imported", 81)
	if r := p.run("export", "--topic", "imported", "--to", "new", "--gzip=false", "--split-times"); r.code != 1 || !strings.Contains(r.err, "partition 0 of topic imported has no records at offsets 80 to 80") ||
		!strings.Contains(r.err, "after 80 records in 20 files") {
		t.Errorf("export: %+v", r)
	}
	for name, values := range map[string]string{"000000000000": "a0b0same", "000000000076": "a19b19same"} {
		if data, err := os.ReadFile(filepath.Join(p.dir, "new", "imported", name+".record_batch")); err != nil || !bytes.HasSuffix(data, []byte(values)) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	// A gap at the very end, and one after some records.
	p.must("topic", "trim", "imported", "--before", "81", "--yes")
	if r := p.run("export", "--topic", "imported", "--to", "end"); r.code != 1 || !strings.Contains(r.err, "no records at offsets 82 to 82") || !strings.Contains(r.err, "after 1 records in 1 files") {
		t.Errorf("export of the end: %+v", r)
	}
	p.must("import", "--from", "new", "--topic", "imported", "--as", "again")
	if got := p.must("consume", "again"); strings.Count(got, "\n") != 80 {
		t.Errorf("imported again: %q", got)
	}
}

// TestCompactionEndToEnd writes many records with 100 keys. The topic shrinks; so does the bucket
// on S3, where snapshots are frequent. Another machine finds the newest value of each key.
func TestCompactionEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Run("disk", func(t *testing.T) { testCompactionEndToEnd(t, newWorkDir(t), 20_000, "./bucket", nil) })
	t.Run("s3", func(t *testing.T) {
		s, p := testenv.S3ForTest(t), newWorkDir(t)
		p.env = append(p.env, "AWS_ACCESS_KEY_ID="+testenv.AccessKey, "AWS_SECRET_ACCESS_KEY="+testenv.SecretKey)
		store := must.Get(anystore.Open(t.Context(), s.Spec("seb"), anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(t)
		defer func() { _ = store.(*s3.Store).Close() }()
		testCompactionEndToEnd(t, p, 8000, s.Spec("seb"), store)
	})
}

// testCompactionEndToEnd checks the size of the bucket if it is given as a store.
func testCompactionEndToEnd(t *testing.T, p *workDir, records int, bucket string, store objstore.Store) {
	const keys, size = 100, 500
	b := p.serve(append([]string{"--bucket", bucket, "--data-dir", "one"}, oftenMerged...)...)
	p.must("topic", "create", "c", "--data-dir", "one", "-s", "cleanup-policy=compact")
	cl := must.Get(client.New(b.address(), client.Options{APIKey: p.keyOf("one")}))(t)
	defer cl.Close()
	newest, written := map[string]string{}, int64(0)
	var recs []record.Record
	for i := range records {
		key, value := fmt.Sprint("key", rand.N(keys)), fmt.Sprintf("%d-%s", i, strings.Repeat("x", rand.N(2*size)))
		newest[key] = value
		written += int64(len(value))
		if recs = append(recs, record.Record{Key: []byte(key), Value: []byte(value)}); len(recs) == 400 {
			must.Get(cl.Produce(t.Context(), "c", recs, client.ProduceOptions{}))(t)
			recs = recs[:0]
		}
	}
	p.compactedTo(b, "one", "c", 8*keys)
	if store != nil {
		waitFor(t, func() bool { // snapshots, and with them collections, follow commits
			p.post(b, "other", "one", `{"value":"x"}`)
			return bucketBytes(t, store) < written/3
		})
	}
	must.Equalf(t, b.term(), 0, "exit code")

	p.serve("--bucket", bucket, "--data-dir", "two")
	got, lines := map[string]string{}, 0
	for line := range strings.Lines(p.must("consume", "c", "--data-dir", "two", "--format", "key-value")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		got[key] = value
		lines++
	}
	for key, value := range newest {
		if got[key] != value {
			t.Errorf("%s is %.20q, want %.20q", key, got[key], value)
		}
	}
	if len(got) != len(newest) || lines > 8*keys {
		t.Errorf("%d keys and %d records, want %d keys", len(got), lines, len(newest))
	}
	check.Containsf(t, p.must("fsck", "--bucket", bucket), "damages     0", "fsck")
}

// bucketBytes returns the size of all objects of a bucket.
func bucketBytes(t *testing.T, store objstore.Store) (n int64) {
	t.Helper()
	for o := (objstore.ListOptions{}); ; {
		entries, more := must.Get2(store.List(t.Context(), o))(t)
		for _, e := range entries {
			n += e.Size
			o.After = e.Key
		}
		if !more {
			return n
		}
	}
}
