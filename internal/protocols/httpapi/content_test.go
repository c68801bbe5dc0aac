package httpapi

import (
	"mime"
	"testing"

	"github.com/sebbroker/seb/api"
)

// FuzzContentType checks that the fast path agrees with package mime.
func FuzzContentType(f *testing.F) {
	for _, s := range []string{
		api.JSON, api.TextPlain, api.NDJSON, api.OctetStream, api.RecordBatch, api.Multipart, api.Multipart + "; boundary=aB9-_x", api.Multipart + "; boundary=",
		api.Multipart + "; boundary=a b", api.Multipart + "; boundary=\"a\"", api.Multipart + "; boundary=a; boundary=b", api.Multipart + "; boundary=a;x=y",
		"Text/Plain; charset=utf-8", "", ";", "text/plain;", api.Multipart + "; boundary*=us-ascii''x", api.Multipart + "; boundary=\xff", api.Multipart + "; boundary=a'b+c.d",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		kind, boundary, err := contentType(header)
		wantKind, params, wantErr := mime.ParseMediaType(header)
		if (err == nil) != (wantErr == nil) || kind != wantKind || boundary != params["boundary"] {
			t.Fatalf("%q: %q %q %v, want %q %q %v", header, kind, boundary, err, wantKind, params["boundary"], wantErr)
		}
	})
}
