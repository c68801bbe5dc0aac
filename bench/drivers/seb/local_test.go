package seb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/bench/sut"
)

func TestLocalBrokerIsFound(t *testing.T) {
	dir := t.TempDir()
	write := func(a announced) {
		b, err := json.Marshal(a)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "broker.json"), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	local := announced{Address: "http://127.0.0.1:1", Key: "k", Bucket: "file:/b", PID: os.Getpid()}
	write(local)
	for name, c := range map[string]struct{ given, want *httpSystem }{
		"nothing given": {&httpSystem{}, &httpSystem{c: sut.Config{Address: local.Address}, key: "k", bucket: "file:/b"}},
		"another address": {
			&httpSystem{c: sut.Config{Address: "http://other:1"}},
			&httpSystem{c: sut.Config{Address: "http://other:1"}},
		},
		"the key given": {&httpSystem{key: "x"}, &httpSystem{c: sut.Config{Address: local.Address}, key: "x", bucket: "file:/b"}},
		"a process":     {&httpSystem{c: sut.Config{PID: 7}}, &httpSystem{c: sut.Config{Address: local.Address, PID: 7}, key: "k"}},
	} {
		s := &httpSystem{c: c.given.c, key: c.given.key, bucket: c.given.bucket}
		s.useLocal(dir)
		if s.c.Address != c.want.c.Address || s.key != c.want.key || s.bucket != c.want.bucket {
			t.Errorf("%s: address %q key %q bucket %q", name, s.c.Address, s.key, s.bucket)
		}
	}
	local.PID = 1 << 30 // it was killed
	write(local)
	s := new(httpSystem)
	if s.useLocal(dir); s.c.Address != "" {
		t.Errorf("a broker that has ended is used: %s", s.c.Address)
	}
}
