package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/must"

	_ "github.com/sebbroker/seb/bench/drivers" // they register themselves
)

// TestServesTheDriver sends messages through the server with the driver that measures it.
func TestServesTheDriver(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "messages")} {
		lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		stop, served := make(chan os.Signal, 1), make(chan error, 1)
		go func() { served <- serve(lis, file, stop) }()
		exchange(t, lis.Addr().String())
		stop <- os.Interrupt
		must.NoError(t, <-served)
	}
}

func exchange(t *testing.T, address string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := must.Get(sut.Open(ctx, "seb", sut.Config{
		Address: "http://" + address, Name: "a", Partitions: 1, Options: map[string]string{"bucket": "mem:", "follow": "sse"},
	}))(t)
	must.Get(s.Setup(ctx))(t)
	subscriber := must.Get(s.Subscriber(ctx, false))(t)
	got, over := make(chan string, 1), make(chan error, 1)
	go func() { over <- subscriber.Receive(ctx, func(b []byte) { got <- string(b) }) }()
	publisher := must.Get(s.Publisher(ctx))(t)
	for _, message := range []string{"first", "second"} {
		stored := make(chan error, 1)
		publisher.Publish(ctx, nil, []byte(message), func(err error) { stored <- err })
		must.NoError(t, <-stored)
		must.Equal(t, <-got, message)
	}
	must.NoError(t, publisher.Close(ctx))
	cancel()
	must.NoError(t, <-over)
	must.NoError(t, s.Teardown(context.WithoutCancel(ctx)))
}
