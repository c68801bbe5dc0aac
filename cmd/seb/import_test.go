package main_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// oldFile builds a batch file of version 1, byte by byte.
func oldFile(micros int64, values ...string) []byte {
	b := []byte("seb!\x01\x00")
	b = binary.LittleEndian.AppendUint64(b, uint64(micros))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(values)))
	b = append(b, make([]byte, 14)...)
	at := 0
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		at += len(v)
	}
	return append(b, strings.Join(values, "")...)
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// old is a version-1 topic in a folder.
type old struct {
	t      *testing.T
	dir    string
	next   int
	values []string
	millis []int64
}

func (p *workDir) old(name string) *old {
	p.t.Helper()
	o := &old{t: p.t, dir: filepath.Join(p.dir, name)}
	must.NoError(p.t, os.MkdirAll(o.dir, 0o700))
	return o
}

func (o *old) write(name string, b []byte) {
	o.t.Helper()
	must.NoError(o.t, os.WriteFile(filepath.Join(o.dir, name), b, 0o600))
}

func (o *old) add(compress bool, values ...string) {
	o.t.Helper()
	micros := 1_700_000_000_000_000 + int64(o.next)*1_001_001
	b := oldFile(micros, values...)
	if compress {
		b = gzipped(b)
	}
	o.write(fmt.Sprintf("%012d.record_batch", o.next), b)
	o.next += len(values)
	o.values = append(o.values, values...)
	for range values {
		o.millis = append(o.millis, micros/1000)
	}
}

// check compares a topic with its source files: values, offsets, times.
func (o *old) check(p *workDir, topic string) {
	o.t.Helper()
	in := bufio.NewScanner(strings.NewReader(p.must("consume", topic, "--format", "json")))
	in.Buffer(nil, 64<<20)
	n := 0
	for in.Scan() {
		var r struct {
			Offset    int64
			Timestamp int64
			Value     *string
			Key       *string
		}
		must.NoError(o.t, json.Unmarshal(in.Bytes(), &r))
		if n >= len(o.values) || r.Offset != int64(n) || r.Value == nil || *r.Value != o.values[n] || r.Timestamp != o.millis[n] || r.Key != nil {
			o.t.Fatalf("record %d of %s: %.200s", n, topic, in.Bytes())
		}
		n++
	}
	if n != len(o.values) {
		o.t.Fatalf("%d of %d records in %s", n, len(o.values), topic)
	}
}

func TestImportAndExport(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	o := p.old("old/orders")
	o.add(true, "AAA", "BBBBB", "C")
	o.add(false, "", "plain", "")
	o.add(true, strings.Repeat("large", 700_000)) // above the default limit of a batch
	o.add(true, "d")
	o.write("offsets_000000000000.offsets", offsetsFile(0, 3, 6))
	p.must("import", "--from", "old", "--topic", "orders")
	o.check(p, "orders")
	if r := p.run("import", "--from", "old", "--topic", "orders"); r.code != 0 || !strings.Contains(r.err, "0 records stored in orders, which ends at offset 8") {
		t.Errorf("again: %+v", r)
	}
	o.add(true, "later", "still later")
	p.must("import", "--from", "./old", "--topic", "orders")
	o.check(p, "orders")

	if r := p.run("export", "--topic", "orders", "--to", "new", "--split-times"); r.code != 0 || strings.Contains(r.err, "warning") {
		t.Errorf("export: %+v", r)
	}
	first, err := os.ReadFile(filepath.Join(p.dir, "new", "orders", "000000000000.record_batch"))
	if err != nil || !bytes.HasPrefix(first, []byte{0x1f, 0x8b}) {
		t.Errorf("first file: %.20x %v", first, err)
	}
	p.must("import", "--from", "new", "--topic", "orders", "--as", "round")
	o.check(p, "round")

	o.add(true, "more")
	p.must("import", "--from", "old", "--topic", "orders")
	if r := p.run("export", "--topic", "orders", "--to", "new", "--split-times"); r.code != 0 || !strings.Contains(r.err, "1 records written to 1 files") {
		t.Errorf("export continues: %+v", r)
	}
	p.must("import", "--from", "new", "--topic", "orders", "--as", "round")
	o.check(p, "round")
	p.must("export", "--topic", "orders", "--to", "plain", "--split-times", "--gzip=false")
	plain, err := os.ReadFile(filepath.Join(p.dir, "plain", "orders", "000000000000.record_batch"))
	if want := oldFile(1_700_000_000_000_000, "AAA", "BBBBB", "C"); err != nil || !bytes.Equal(plain, want) {
		t.Errorf("%x, want %x, %v", plain, want, err)
	}
	r := p.run("export", "--topic", "orders", "--to", "merged")
	if r.code != 0 || !strings.Contains(r.err, "in 1 files") && !strings.Contains(r.err, "to 1 files") || !strings.Contains(r.err, "got the time of the first record") {
		t.Errorf("merged: %+v", r)
	}
	p.mustWith("k:v\n", "produce", "keyed", "--key-separator", ":")
	if r := p.run("export", "--topic", "keyed", "--to", "keyed"); r.code != 0 || !strings.Contains(r.err, "1 records lost their key") {
		t.Errorf("keyed: %+v", r)
	}
	p.refused(1, "belong to another topic", "export", "--topic", "keyed", "--to", otherTopic(t, p, "keyed"))
}

// otherTopic is a bucket with files of a topic with other records.
func otherTopic(t *testing.T, p *workDir, topic string) string {
	t.Helper()
	o := p.old("other/" + topic)
	o.add(true, "x", "y", "z")
	return "other"
}

func offsetsFile(offsets ...uint64) []byte {
	b := append([]byte("seb@\x01\x00"), make([]byte, 26)...)
	binary.LittleEndian.PutUint32(b[14:], uint32(len(offsets)))
	for _, o := range offsets {
		b = binary.LittleEndian.AppendUint64(b, o)
	}
	return b
}

func TestImportRefuses(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	o := p.old("old/t")
	o.add(true, "a", "b")
	o.next += 2
	o.add(true, "f")
	p.refused(2, "a name with slashes", "import", "--from", ".", "--topic", "old/t")
	p.refused(1, "no files of topic none", "import", "--from", "old", "--topic", "none")
	p.refused(2, "does not exist", "import", "--from", "nowhere", "--topic", "t")
	p.refused(2, "--from and --topic", "import")
	p.refused(5, "the records at offsets 2 to 3 are in no file", "import", "--from", "old", "--topic", "t")
	if r := p.run("import", "--from", "old", "--topic", "t", "--skip-damaged"); r.code != 0 || !strings.Contains(r.err, "were skipped") {
		t.Errorf("%+v", r)
	}
	o.check(p, "t")
}

// interrupted runs a command repeatedly and kills it after a while, until it completes.
func interrupted(t *testing.T, p *workDir, args ...string) (kills int) {
	t.Helper()
	for waitLimit := 2 * time.Millisecond; ; waitLimit += waitLimit / time.Duration(sebtest.Runs(4, 1)) {
		c := p.command(args...)
		var out bytes.Buffer
		c.Stderr = &out
		must.NoError(t, c.Start())
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			return kills
		case <-time.After(waitLimit/2 + rand.N(waitLimit)):
			_ = c.Process.Kill()
			<-done
			kills++
		}
	}
}

func TestInterruptions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.serve()
	o := p.old("old/t")
	for i := range sebtest.Runs(300, 60) {
		values := make([]string, 1+i%7)
		for j := range values {
			values[j] = fmt.Sprintf("%d.%d %s", i, j, strings.Repeat("x", i*j*20))
		}
		o.add(i%3 > 0, values...)
	}
	kills := interrupted(t, p, "import", "--from", "old", "--topic", "t")
	o.check(p, "t")
	kills += interrupted(t, p, "export", "--topic", "t", "--to", "new", "--split-times")
	p.must("import", "--from", "new", "--topic", "t", "--as", "again")
	o.check(p, "again")
	t.Logf("%d kills", kills)
	if kills == 0 {
		t.Error("no run was interrupted")
	}
}
