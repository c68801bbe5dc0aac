package s3_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// narrows forwards connections to address. It holds back all but the first pass bytes of each
// client until open is closed, and signals on held when it does.
func narrows(t *testing.T, address string, pass int64) (at string, held <-chan struct{}, open chan struct{}) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	waits, open := make(chan struct{}, 16), make(chan struct{})
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			conns.Go(func() {
				_, _ = io.Copy(client, server)
				_ = client.Close()
			})
			conns.Go(func() {
				if n, _ := io.CopyN(server, client, pass); n == pass {
					waits <- struct{}{}
					<-open
				}
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Wait()
	})
	return l.Addr().String(), waits, open
}

// TestASlowPutDoesNotOverwrite checks that a PUT that starts before another of the same name and
// ends after it finds the name taken. A store that checks the condition at the start of a request
// has two winners here.
func TestASlowPutDoesNotOverwrite(t *testing.T) {
	server := testenv.S3ForTest(t)
	o := server.Options("slow")
	fast := openS3(t, o)
	u := must.Get(url.Parse(o.Endpoint))(t)
	value := bytes.Repeat([]byte("slow"), 1<<18)
	at, held, open := narrows(t, u.Host, int64(len(value)/2))
	o.Endpoint = strings.Replace(o.Endpoint, u.Host, at, 1)
	slow := openS3(t, o)
	ended := make(chan error, 1)
	go func() { ended <- slow.Put(t.Context(), "k", objstore.NewBody(value)) }()
	select {
	case <-held:
	case err := <-ended:
		t.Fatalf("the slow put ended by itself: %v", err)
	}
	check.NoErrorf(t, fast.Put(t.Context(), "k", objstore.NewBody([]byte("fast"))), "the fast put")
	close(open)
	if err := <-ended; !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrNoVerdict) {
		t.Errorf("the slow put: %v", err)
	}
	obj := must.Get(fast.Get(t.Context(), "k", objstore.Whole))(t)
	defer obj.Body.Close()
	if got, err := io.ReadAll(obj.Body); err != nil || string(got) != "fast" {
		t.Errorf("the object is %.20q, %v", got, err)
	}
}
