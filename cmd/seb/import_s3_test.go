package main_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/migration"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/test/s3server"
)

// TestVersion1OnS3: a version-1 bucket on S3 comes in and goes out, and the broker's own bucket there is checked.
func TestVersion1OnS3(t *testing.T) {
	s := s3server.ForTest(t)
	p := newPlace(t)
	p.env = append(p.env, "AWS_ACCESS_KEY_ID="+s3server.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3server.SecretKey)
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

	keys := objstore.Options{AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey}
	store, err := objstore.Open(t.Context(), s.Spec("out"), keys)
	if err != nil {
		t.Fatal(err)
	}
	f, err := migration.Read(t.Context(), store, "t", 2)
	if err != nil || f.Len() != 1 || string(f.Value(0)) != "c" {
		t.Errorf("%+v %v", f, err)
	}
}
