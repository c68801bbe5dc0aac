// Command trigger puts a trigger, receives its webhook, and sends the event that fires it. The broker
// must be allowed to call a local address:
//
//	seb serve --webhook-targets 127.0.0.1
//	SEB_API_KEY=$(cat seb-data/api-key) go run ./examples/trigger
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/webhook"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, cmp.Or(os.Getenv("SEB_ADDRESS"), "http://127.0.0.1:51313"), os.Getenv("SEB_API_KEY")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, key string) error {
	// The receiver. A real one keeps the secret and the message IDs in a database.
	secret := webhook.NewSecret()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	firings := make(chan webhook.Firing)
	server := &http.Server{Handler: receiver(secret, firings)}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	// The trigger: a user was created and has no project a second later.
	c, err := client.New(address, client.Options{APIKey: key, RetryTime: 5 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	// IDs of this run, because a trigger fires once for an entity.
	suffix := rand.Text()[:8]
	id, entity := "example-"+suffix, "ada-"+suffix
	_, err = c.PutTrigger(ctx, id, client.TriggerSpec{
		Expr:    `user_created THEN (NOT project_created WITHIN 1 second)`,
		Deliver: json.RawMessage(fmt.Sprintf(`{"url":"http://%s/hook","secrets":[%q]}`, listener.Addr(), secret.Reveal())),
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = c.DeleteTrigger(ctx, id)
	}()

	_, err = c.ProduceEvent(ctx, client.Event{Name: "user_created", EntityID: entity, ID: "signup"}, client.EventOptions{})
	if err != nil {
		return err
	}
	for {
		select {
		case firing := <-firings:
			if firing.Data.Entity == entity { // not of another run at the same time
				fmt.Printf("%s: %s fired for %s\n", firing.Type, firing.Data.Trigger, firing.Data.Entity)
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("no webhook arrived: `seb trigger fires %s` shows why", id)
		}
	}
}

// receiver returns a handler that verifies each webhook and sends its firing to firings once.
func receiver(secret webhook.Secret, firings chan<- webhook.Firing) http.Handler {
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	var seen sync.Map // IDs of processed messages: Seb sends a message again until it gets a 2xx answer
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := verifier.Receive(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		var firing webhook.Firing
		if err := json.Unmarshal(message.Body, &firing); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, again := seen.LoadOrStore(message.ID, true); !again {
			firings <- firing
		}
	})
}
