package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// cost returns the output of seb cost, and the counts by kind.
func (p *workDir) cost() (c api.Cost, counts map[string]int64) {
	p.t.Helper()
	must.NoError(p.t, json.Unmarshal([]byte(p.must("cost", "--json")), &c))
	counts = map[string]int64{}
	for _, r := range c.Requests {
		counts[r.Kind] = r.Count
	}
	return c, counts
}

// TestCostCountsCommitObjects: over stops, kills and the loss of the data folder, the count is the
// number of commit objects in the bucket.
func TestCostCountsCommitObjects(t *testing.T) {
	p := newWorkDir(t)
	began := time.Now().UTC().Month()
	ends := []string{"kill", "stop and lose", "stop", "kill and lose", "kill", "kill", ""}
	for _, end := range ends[sebtest.Runs(0, 3):] {
		b := p.serve("--bucket", "./b", "--batch-wait-time", "0")
		for range 3 {
			p.mustWith("a\nb\n", "produce", "t")
		}
		keys, _ := walObjects(t, filepath.Join(p.dir, "b"))
		stored := int64(len(keys))
		c, counts := p.cost()
		if time.Now().UTC().Month() != began {
			t.Skip("a month began during the test")
		}
		if counts["commit"] != stored || len(counts) != 1 || c.Requests[0].Since.Format("02 15:04:05") != "01 00:00:00" {
			t.Errorf("before %q: %+v, but %d commit objects in the bucket", end, c, stored)
		}
		if strings.HasPrefix(end, "kill") {
			b.kill()
		} else {
			b.term()
		}
		if strings.HasSuffix(end, "lose") {
			must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "seb-data")))
		}
	}
}

// TestCostCountsWhatS3Bills compares the counts with those of a proxy in front of the S3 server.
func TestCostCountsWhatS3Bills(t *testing.T) {
	server := testenv.S3ForTest(t)
	p := newWorkDir(t)
	p.env = []string{"AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
	proxy := must.Get(testenv.NewS3Proxy(server.Endpoint))(t)
	t.Cleanup(proxy.Close)
	serve := func() *running {
		b := p.serve("--bucket", proxy.Spec("cost"), "--batch-wait-time", "0", "--snapshot-slots", "10", "--pack-age", "10ms", "--merge-interval", "20ms")
		for range 6 {
			p.mustWith("a\nb\n", "produce", "t")
		}
		return b
	}
	began := time.Now().UTC().Month()
	starts := int64(0)
	compare := func(lost bool) {
		t.Helper()
		starts++
		waitFor(t, func() bool {
			before := proxy.Counts()
			_, is := p.cost()
			billed := proxy.Counts()
			if time.Now().UTC().Month() != began {
				t.Skip("a month began during the test")
			}
			if len(billed.Sub(before)) > 0 { // maintenance is running
				return false
			}
			// Each start puts its SEAL twice, and the log counts it once.
			if wal := int64(billed.Of(testenv.Put, "wal")); is["commit"] != wal-starts {
				t.Fatalf("%d commit objects, want the %d PUTs of slots without %d repeated ones", is["commit"], wal, starts)
			}
			all := objstore.Requests{
				Put: is["commit"] + is["put"], List: is["list"], Get: is["get"], Delete: is["delete"],
			}
			want := objstore.Requests{
				Put: int64(billed.Of(testenv.Put)), List: int64(billed.Of(testenv.List)), Get: int64(billed.Of(testenv.Get)), Delete: int64(billed.Of(testenv.Delete)),
			}
			if lost && all.Put <= want.Put && all.Get <= want.Get && all.List <= want.List && all.Delete <= want.Delete {
				return true // up to a minute of other requests
			}
			if all != want {
				t.Fatalf("%+v, but the store got %+v: %v", all, want, billed)
			}
			return true
		})
	}
	b := serve()
	compare(false)
	b.kill()
	b = serve()
	compare(true)
	if code := b.term(); code != 0 {
		t.Fatalf("exit code %d: %s", code, b.err.String())
	}
	serve()
	compare(true)
	if got := p.must("cost"); !regexp.MustCompile(`(?m)^ *commit +\d+ +\$5/M +\$\S+ +- +-$`).MatchString(got) || !strings.Contains(got, "Prices: s3-standard;") {
		t.Errorf("%s", got)
	}
}

func TestPricesFlag(t *testing.T) {
	p := newWorkDir(t)
	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "mine.json"), []byte(`{"put_per_million": 1}`), 0o600))
	for given, want := range map[string]string{
		"s3":        `--prices "s3": want s3-standard, s3-express, r2, b2, gcs, free or a file of prices`,
		"mine.json": `--prices "mine.json": mine.json: list_per_million is missing`,
	} {
		if r := p.run("serve", "--bucket", "./none", "--prices", given); r.code != 2 || !strings.Contains(r.err, want) {
			t.Errorf("--prices %s: exit code %d, want 2, and %q in: %s", given, r.code, want, r.err)
		}
	}
	check.Error(t, check.Err(os.Stat(filepath.Join(p.dir, "none"))), "a broker with wrong prices has made its bucket")
	p.serve("--bucket", "mem:", "--prices", "r2")
	if c, _ := p.cost(); c.Prices != "r2" || c.Storage.PerGBMonth != 0.015 {
		t.Errorf("%+v", c)
	}
}
