package seb_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sebbroker/seb"
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
