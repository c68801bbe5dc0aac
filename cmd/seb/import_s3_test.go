package main_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestVersion1OnS3 imports and exports a version-1 bucket on S3, and checks the broker's own bucket
// there.
func TestVersion1OnS3(t *testing.T) {
	s := testenv.S3ForTest(t)
	p := newWorkDir(t)
	p.env = append(p.env, "AWS_ACCESS_KEY_ID="+testenv.AccessKey, "AWS_SECRET_ACCESS_KEY="+testenv.SecretKey)
	b := p.serve("--bucket", s.Spec("seb"))
	o := p.old("old/t")
	o.add(true, "a", "b")
	o.add(false, "c")
	p.must("import", "--from", "old", "--topic", "t")
	p.must("export", "--topic", "t", "--to", s.Spec("out"), "--split-times")
	p.must("import", "--from", s.Spec("out"), "--topic", "t", "--as", "back")
	o.check(p, "back")
	b.kill()
	p.must("fsck", "--bucket", s.Spec("seb"))

	keys := anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}
	store := must.Get(anystore.Open(t.Context(), s.Spec("out"), keys))(t)
	f, err := v1.Read(t.Context(), store, "t", 2)
	if err != nil || f.Len() != 1 || string(f.Value(0)) != "c" {
		t.Errorf("%+v %v", f, err)
	}
}
