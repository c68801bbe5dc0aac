// Command embedded opens a broker inside the program, writes records to a folder, and reads them after
// the broker was closed and opened again.
//
//	go run ./examples/embedded ./bucket
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/record"
)

func main() {
	bucket := "./bucket" // or s3://name/prefix?region=…
	if len(os.Args) > 1 {
		bucket = os.Args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := write(ctx, bucket); err != nil {
		log.Fatal(err)
	}
	if err := read(ctx, bucket); err != nil {
		log.Fatal(err)
	}
}

func write(ctx context.Context, bucket string) error {
	b, err := seb.Open(ctx, seb.Options{Bucket: bucket})
	if err != nil {
		return err
	}
	defer b.Close(ctx)

	// Produce returns after the records are durable. An error other than seb.ErrOutcomeUnknown means
	// that they are not stored and cannot appear later.
	first, err := b.Produce(ctx, "orders", 0,
		record.Record{Key: []byte("4711"), Value: []byte("placed")},
		record.Record{Key: []byte("4711"), Value: []byte("paid")})
	if err != nil {
		return err
	}
	fmt.Println("stored from offset", first)
	return b.Close(ctx)
}

func read(ctx context.Context, bucket string) error {
	b, err := seb.Open(ctx, seb.Options{Bucket: bucket, ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close(ctx)

	for r, err := range b.Records(ctx, "orders", seb.ReadOptions{Offset: seb.Earliest}) {
		if err != nil {
			return err
		}
		fmt.Printf("%d: order %s was %s\n", r.Offset, r.Key, r.Value)
	}
	return nil
}
