package seb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// A broker inside a program: records that it stored are there when this program or another opens
// the bucket again.
func Example() {
	dir, err := os.MkdirTemp("", "seb-example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	b, err := seb.Open(ctx, seb.Options{Bucket: dir + "/bucket"})
	if err != nil {
		log.Fatal(err)
	}
	first, err := b.Produce(ctx, "orders", 0,
		record.Record{Key: []byte("4711"), Value: []byte("placed")},
		record.Record{Key: []byte("4711"), Value: []byte("paid")})
	if err != nil {
		log.Fatal(err) // nothing was stored, unless err is seb.ErrOutcomeUnknown
	}
	fmt.Println("stored from offset", first)
	if err := b.Close(ctx); err != nil {
		log.Fatal(err)
	}

	if b, err = seb.Open(ctx, seb.Options{Bucket: dir + "/bucket"}); err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)
	for r, err := range b.Records(ctx, "orders", seb.ReadOptions{Offset: seb.Earliest}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: order %s was %s\n", r.Offset, r.Key, r.Value)
	}
	// Output:
	// stored from offset 0
	// 0: order 4711 was placed
	// 1: order 4711 was paid
}

// A service with a broker inside: other programs, curl and browsers use its HTTP API.
func ExampleBroker_Handler() {
	ctx := context.Background()
	b, err := seb.Open(ctx, seb.Options{Bucket: "mem:", APIKey: "a-key-of-32-hexadecimal-digits"})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)
	mux := http.NewServeMux()
	mux.Handle("/seb/", http.StripPrefix("/seb", b.Handler()))
	server := httptest.NewServer(mux) // or an http.Server with ReadHeaderTimeout and IdleTimeout
	defer server.Close()

	c, err := client.New(server.URL+"/seb", client.Options{APIKey: "a-key-of-32-hexadecimal-digits"})
	if err != nil {
		log.Fatal(err)
	}
	stored, err := c.ProduceEvent(ctx, client.Event{Name: "signed_up", EntityID: "ada"}, client.EventOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored in topic", stored.Topic, "at offset", stored.Offset)
	// Output:
	// stored in topic events at offset 0
}

// A trigger of an embedded broker, and what it waits for.
func ExampleBroker_Client() {
	ctx := context.Background()
	b, err := seb.Open(ctx, seb.Options{Bucket: "mem:"})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)
	c := b.Client()
	_, err = c.PutTrigger(ctx, "no-project", client.TriggerSpec{
		Expr: "signed_up THEN (NOT project_created WITHIN 7 days)", Deliver: json.RawMessage(`{"topic":"mails"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err = c.ProduceEvent(ctx, client.Event{Name: "signed_up", EntityID: "ada"}, client.EventOptions{}); err != nil {
		log.Fatal(err)
	}
	x, err := c.Explain(ctx, "no-project", "ada")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("for", x.Entity, "it waits for", x.Names)
	// Output:
	// for ada it waits for [project_created signed_up]
}
