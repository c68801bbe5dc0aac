package fsck_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestBackupOfViews: a restore point holds the newest copy of each view that is not ahead of it.
func TestBackupOfViews(t *testing.T) {
	t.Parallel()
	from, to := objstore.NewMemory(), objstore.NewMemory()
	live(t, from, 1000)
	settled(t, from)
	first := backup(t, from, to, 0)
	cluster, _ := must.Get2(core.DecodeMeta(read(t, from, core.MetaKey)))(t)
	b := open(t, options(from, 1000))
	produce(t, b, "a", 0, "later")
	place := snapshot.LogPosition{Position: state.Position{Epoch: b.Epoch()}, Nonce: nonceOf(t, from, b.Epoch())}
	closeBroker(t, b)
	path := filepath.Join(t.TempDir(), "file")
	must.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("some bytes "), 300), 0o600))
	copies := snapshot.Open(snapshot.Options{
		Store: from, View: "triggers", Schema: 1, Cluster: func() record.ID { return cluster }, PieceBytes: 1000,
		At: func() (snapshot.LogPosition, bool) { return place, true }, On: func(snapshot.LogPosition) bool { return true },
	})
	for range 2 {
		must.Get(copies.Save(t.Context(), path, snapshot.Note{}, false))(t)
		place.Slot++
	}
	backup(t, from, to, 0)
	check.Equalf(t, clean(t, restored(t, to, nil)).Views, 1, "views")
	check.Equalf(t, clean(t, restored(t, to, &first.At)).Views, 0, "views at a position before them")
}

// TestVersionedBucket: old versions of deleted objects have no effect, because each name is used
// once.
func TestVersionedBucket(t *testing.T) {
	t.Parallel()
	server := testenv.S3ForTest(t, "--versioning-dir", t.TempDir())
	client := awss3.New(awss3.Options{
		Region: "us-east-1", BaseEndpoint: &server.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(testenv.AccessKey, testenv.SecretKey, ""),
	})
	must.Get(client.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: aws.String(testenv.Bucket), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}))(t)
	open := func(prefix string) *s3.Store {
		s := must.Get(s3.Open(t.Context(), server.Options(prefix)))(t)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	from, to := open("bucket"), open("backup")
	if on, err := from.Versioned(t.Context()); err != nil || !on {
		t.Errorf("versioning is not seen: %v", err)
	}
	want := live(t, from, 4)
	settled(t, from)
	check.Equalf(t, clean(t, from).Records, want, "records")
	backup(t, from, to, 1)
	_ = content(t, from) // the next epoch
	backup(t, from, to, 1)
	sameRecords(t, restored(t, to, nil), content(t, from))
}

// nonceOf returns the nonce of an epoch from the name of one of its objects.
func nonceOf(t testing.TB, s objstore.Store, epoch uint32) record.ID {
	t.Helper()
	for key := range keys(t, s) {
		if e, nonce, _, ok := state.ParseSlotKey(0, key); ok && e == epoch {
			return nonce
		}
	}
	t.Fatal("no object of the epoch")
	return record.ID{}
}

// TestBackupsSideBySide: pruning leaves the objects that another backup has transferred so far, and
// deletes those of dropped restore points.
func TestBackupsSideBySide(t *testing.T) {
	t.Parallel()
	from, to := objstore.NewMemory(), objstore.NewMemory()
	live(t, from, 4)
	settled(t, from)
	first := backup(t, from, to, 1)
	other := state.SlotKey(0, first.At.Epoch+5, record.ID{1}, 0)
	put(t, to, other, []byte("transferred by another backup"))
	b := open(t, options(from, 4))
	for range 10 {
		produce(t, b, "a", 0, "later")
	}
	closeBroker(t, b)
	settled(t, from)
	if r := backup(t, from, to, 1); r.Points != 1 || r.Deleted.Objects == 0 {
		t.Errorf("%+v", r)
	}
	if keys(t, to)[other] == 0 {
		t.Error("an object of the other backup was deleted")
	}
}
