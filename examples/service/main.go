// Command service is a program with a broker inside: it puts a trigger, serves the HTTP API and the
// console, sends the event that fires the trigger to that API, and reads the message.
//
//	go run ./examples/service
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/webhook"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, rand.Text()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, key string) error {
	b, err := seb.Open(ctx, seb.Options{Bucket: "./bucket", APIKey: key}) // or s3://name/prefix?region=…
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	if _, err := b.CreateTopic(ctx, "messages", seb.TopicSpec{}); err != nil && !errors.Is(err, seb.ErrTopicExists) {
		return err
	}
	_, err = b.Client().PutTrigger(ctx, "paid", client.TriggerSpec{
		Expr: "ordered THEN paid", Deliver: json.RawMessage(`{"topic":"messages"}`), // or {"url":"https://…"}
	})
	if err != nil {
		return err
	}

	// Other programs, curl and browsers use the handler. A service has an address of its own, and waits
	// for a signal before it shuts the server down.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: b.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	remote, err := client.New("http://"+listener.Addr().String(), client.Options{APIKey: key})
	if err != nil {
		return err
	}
	order := "order-" + rand.Text()[:8] // of this run, because the trigger fires once for an order
	_, err = remote.ProduceEvents(ctx, []client.Event{{Name: "ordered", EntityID: order}, {Name: "paid", EntityID: order}}, client.EventOptions{})
	if err != nil {
		return err
	}

	for message, err := range b.Records(ctx, "messages", seb.ReadOptions{Offset: seb.Earliest, Follow: true}) {
		if err != nil {
			return fmt.Errorf("no message of the trigger: %w", err)
		}
		var firing webhook.Firing
		if err := json.Unmarshal(message.Value, &firing); err == nil && firing.Data.Entity == order {
			fmt.Printf("%s fired for %s\n", firing.Data.Trigger, firing.Data.Entity)
			break
		}
	}
	return nil
}
