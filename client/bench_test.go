package client_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// sockets returns a body in pieces, as a connection does.
type sockets struct{ body []byte }

func (s sockets) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(&pieces{bytes.NewReader(s.body)})}, nil
}

type pieces struct{ in *bytes.Reader }

func (p *pieces) Read(b []byte) (int, error) { return p.in.Read(b[:min(len(b), 64<<10)]) }

// BenchmarkFetch reads 1,024 records of 1 KiB in batches of 127.
func BenchmarkFetch(b *testing.B) {
	var body []byte
	for at := 0; at < 1024; at += 127 {
		recs := make([]record.Record, min(127, 1024-at))
		for i := range recs {
			recs[i].Value = make([]byte, 1024)
		}
		batch, _ := recordtest.Encode(recs, record.EncodeOptions{})
		record.Patch(batch, int64(at), 1)
		body = append(body, batch...)
	}
	c, err := client.New("http://127.0.0.1:1", client.Options{HTTPClient: &http.Client{Transport: sockets{body}}})
	must.NoError(b, err)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := c.Fetch(b.Context(), "t", client.FetchOptions{})
		must.NoError(b, err)
		n := 0
		for _, err := range f.All() {
			must.NoError(b, err)
			n++
		}
		f.Close()
		if n != 1024 {
			b.Fatal(n)
		}
	}
}
