package node_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

// TestOpenStore and TestOpenStoreErrors test package anystore.
func TestOpenStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for spec, local := range map[string]bool{"mem:": true, dir: true, "s3://b/p?endpoint=http://127.0.0.1:1": false} {
		s := must.Get(anystore.Open(t.Context(), spec, anystore.Options{AccessKey: "CANARY", SecretKey: "CANARY"}))(t)
		check.Equalf(t, objstore.IsLocal(storetest.NewCounter(s)), local, "%s: local is %v", s, !local)
		check.NoErrorf(t, check.Err(objstore.ParseSpec(s.String())), "String() of %s", s)
		if strings.Contains(s.String(), "CANARY") {
			t.Errorf("%s shows a secret", s)
		}
		if c, ok := s.(interface{ Close() error }); ok {
			check.NoError(t, c.Close())
		}
	}
	if _, err := anystore.Open(t.Context(), "s3://b?region=r", anystore.Options{AccessKey: "only one"}); err == nil {
		t.Error("an access key without a secret key is accepted")
	}
}

func TestOpenStoreErrors(t *testing.T) {
	for spec, want := range map[string]string{"/dev/null/data": "/dev/null", "data": "./dir"} {
		s, err := anystore.Open(t.Context(), spec, anystore.Options{})
		if s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", spec, s, err)
		}
	}
}
