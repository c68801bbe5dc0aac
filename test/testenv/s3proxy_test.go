package testenv_test

import (
	"io"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func open(t *testing.T) (*testenv.S3Proxy, objstore.Store) {
	t.Helper()
	server := testenv.S3ForTest(t)
	p := must.Get(testenv.NewS3Proxy(server.Endpoint))(t)
	t.Cleanup(p.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
	s := must.Get(anystore.Open(t.Context(), p.Spec("a/b"), anystore.Options{}))(t)
	return p, s
}

func TestRequestsAreCounted(t *testing.T) {
	p, s := open(t)
	do := func(err error) {
		t.Helper()
		must.NoError(t, err)
	}
	do(s.Put(t.Context(), "s0000/wal/1/1", objstore.NewBody([]byte("four"))))
	do(s.Put(t.Context(), "s0000/wal/1/2", objstore.NewBody([]byte("nine char"))))
	do(s.Put(t.Context(), "s0000/snap/1", objstore.NewBody([]byte("x"))))
	o, err := s.Get(t.Context(), "s0000/wal/1/2", objstore.Whole)
	do(err)
	b, err := io.ReadAll(o.Body)
	do(err)
	do(o.Body.Close())
	check.Equalf(t, string(b), "nine char", "read %q through the proxy", b)
	before := p.Counts()
	_, _, err = s.List(t.Context(), objstore.ListOptions{Prefix: "s0000/wal/"})
	do(err)
	do(s.Delete(t.Context(), "s0000/wal/1/1", "s0000/wal/1/2"))
	do(s.Delete(t.Context(), "s0000/snap/1"))

	check.Equalf(t, p.Counts().Sub(before).String(), "1 DELETE many, 1 DELETE snap, 1 LIST wal", "counted")
	all := p.Counts()
	if all.Of(testenv.Put) != 3 || all.Of(testenv.Put, "wal") != 2 || all.Of(testenv.Get, "wal", "pack") != 1 || all.Total() != 7 {
		t.Errorf("counted %v", all)
	}
	check.Equalf(t, all.Without("wal", "many").String(), "1 DELETE snap, 1 PUT snap", "without slots")
	check.Equalf(t, p.Puts()["wal"], testenv.S3Sizes{Count: 2, Bytes: 13, Max: 9}, "bodies")
}

func TestSetDelay(t *testing.T) {
	p, s := open(t)
	const delay = 30 * time.Millisecond
	p.SetDelay(delay)
	begin := time.Now()
	must.NoError(t, s.Put(t.Context(), "s0000/wal/1/1", objstore.NewBody([]byte("x"))))
	if took := time.Since(begin); took < delay {
		t.Errorf("a PUT took %v", took)
	}
	const longer = 3 * delay
	p.SetDelayOf(testenv.List, longer)
	begin = time.Now()
	must.Get2(s.List(t.Context(), objstore.ListOptions{Prefix: "s0000/wal/"}))(t)
	if took := time.Since(begin); took < longer {
		t.Errorf("a LIST took %v", took)
	}
}
