package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sebbroker/seb/webhook"
)

// A receiver verifies a message, processes it once per ID, and then answers.
func Example() {
	// from a file or the environment
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	// normally a database table, updated in the same transaction as the processing
	seen := map[string]bool{}

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := verifier.Receive(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if seen[message.ID] {
			return // 200: already processed
		}
		var firing webhook.Firing
		if err := json.Unmarshal(message.Body, &firing); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Println(firing.Type, firing.Data.Trigger, firing.Data.Entity)
		seen[message.ID] = true
	})

	// The broker sends the message twice:
	body := `{"type":"trigger.fired","version":1,"id":"f1","attempt":1,"data":{"trigger":"welcome","trigger_version":1,"entity":"u7"}}`
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		if err := webhook.Sign(r.Header, "f1", time.Now(), []byte(body), secret); err != nil {
			panic(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// trigger.fired welcome u7
	// 200
	// 200
}
