package webhook_test

import (
	"net/http"
	"testing"

	"github.com/sebbroker/seb/internal/delivery/webhook"
)

// BenchmarkSend is an attempt, signed, over a kept connection, with the receiver in the same
// process.
func BenchmarkSend(b *testing.B) {
	to := server(b, func(http.ResponseWriter, *http.Request) {})
	s := newSender(b, local(b))
	for name, c := range map[string]webhook.Config{
		"body=default":  {URL: to},
		"body=template": {URL: to, Template: `{"to": "{{.Witness.signup.Data.name}}", "at": "{{date "2006-01-02" .At}}"}`},
	} {
		b.Run(name, func(b *testing.B) {
			t, m := target(b, c), message("t")
			for b.Loop() {
				slot := s.Reserve(t, m)
				if o := slot.Send(b.Context()); o.Kind != webhook.Delivered {
					b.Fatalf("%+v", o)
				}
				slot.Release()
			}
		})
	}
}
