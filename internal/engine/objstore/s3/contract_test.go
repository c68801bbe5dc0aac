package s3_test

import (
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
	"github.com/sebbroker/seb/test/testenv"
)

func openS3(t *testing.T, o objstore.S3Options) *s3.Store {
	t.Helper()
	s := must.Get(s3.Open(t.Context(), o))(t)
	t.Cleanup(func() { check.NoError(t, s.Close()) })
	return s
}

// prefixes returns a function that gives every store its own prefix in one bucket, and sometimes
// the bucket's root.
func prefixes() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("run/%d", n.Add(1)) }
}

func TestS3ContractWithFake(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	must.NoError(t, backend.CreateBucket("seb"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	prefix := prefixes()
	storetest.Run(t, func(t *testing.T) objstore.Store {
		return openS3(t, objstore.S3Options{
			Bucket: "seb", Prefix: prefix(), Endpoint: server.URL, PathStyle: true, AccessKey: "a", SecretKey: "s",
		})
	})
}

func TestS3ContractWithServer(t *testing.T) {
	t.Parallel()
	server := testenv.S3ForTest(t)
	prefix := prefixes()
	storetest.Run(t, func(t *testing.T) objstore.Store { return openS3(t, server.Options(prefix())) })
}

func TestServerPassesCheck(t *testing.T) {
	s := openS3(t, testenv.S3ForTest(t).Options("a/b"))
	counter := storetest.NewCounter(s)
	must.NoError(t, objstore.Check(t.Context(), counter, objstore.CheckOptions{}))
	if n := counter.Counts().Puts; n < 20*16 {
		t.Errorf("only %d puts", n)
	}
	left, _ := must.Get2(s.List(t.Context(), objstore.ListOptions{}))(t)
	check.Equal(t, len(left), 0)
}
