package httpconn

import (
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
)

func TestNegotiate(t *testing.T) {
	offers := []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch, api.EventStream}
	for accept, want := range map[string]string{
		"*/*":                 api.Multipart,
		"multipart/form-data": api.Multipart,
		"Application/JSON":    api.JSON,
		"application/*":       api.JSON,
		"text/event-stream":   api.EventStream,
		"text/*":              api.EventStream,
		"application/x-ndjson, application/json;q=0.5":  api.NDJSON,
		"application/json;q=0.5, */*;q=0.1":             api.JSON,
		"application/json;q=0, application/*":           api.NDJSON,
		"application/problem+json":                      api.Multipart,
		"multipart/form-data, application/problem+json": api.Multipart,
		"application/json, application/problem+json":    api.JSON,
		"application/vnd.seb.recordbatch":               api.RecordBatch,
		"text/html, application/xhtml+xml, */*;q=0.8":   api.Multipart,
		"text/html":            "",
		"application/json;q=0": "",
		"application/json;q=2": "",
		"":                     api.Multipart,
		"nonsense":             "",
	} {
		check.Equalf(t, Negotiate([]string{accept}, offers), want, "Accept %q: offer", accept)
	}
	check.Equalf(t, Negotiate(nil, offers), api.Multipart, "no header")
}
