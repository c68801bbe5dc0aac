package testenv_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestServerKeepsObjectsAfterKill(t *testing.T) {
	server := testenv.S3ForTest(t)
	store := must.Get(anystore.Open(t.Context(), server.Spec("prefix"), anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(t)
	must.NoError(t, store.Put(t.Context(), "key", objstore.NewBody([]byte("value"))))
	must.Error(t, server.Restart(t.Context()), "Restart accepted a running server")
	must.NoError(t, server.Kill())
	must.ErrorIsf(t, check.Err(store.Get(t.Context(), "key", objstore.Whole)), objstore.ErrNoVerdict, "a dead server")
	must.NoError(t, server.Restart(t.Context()))
	object := must.Get(store.Get(t.Context(), "key", objstore.Whole))(t)
	data, err := io.ReadAll(object.Body)
	if err := errors.Join(err, object.Body.Close()); err != nil || string(data) != "value" {
		t.Fatalf("%q, %v", data, err)
	}
	for range 2 {
		must.NoError(t, server.Stop())
	}
}

func TestStartErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no S3 server")
	}
	t.Setenv(testenv.S3BinaryVariable, filepath.Join(t.TempDir(), "missing"))
	must.ErrorContainsf(t, check.Err(testenv.StartS3(t.Context(), t.TempDir())), testenv.S3BinaryVariable, "a missing binary gives")
	script := filepath.Join(t.TempDir(), "broken")
	must.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho broken program\nexit 3\n"), 0o700))
	t.Setenv(testenv.S3BinaryVariable, script)
	must.ErrorContainsf(t, check.Err(testenv.StartS3(t.Context(), t.TempDir())), "broken program", "a broken binary gives")
}
