package riemann

import (
	"bytes"
	"reflect"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/riemanntest"
)

const perMessage = riemanntest.PerMessage

// cpu is the processor time of the process, in ns.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// perEvent reports the processor time of an event, including that of the client.
func perEvent(b *testing.B, begin int64) {
	n := float64(b.N) * perMessage
	b.ReportMetric(float64(cpu()-begin)/n, "cpu-ns/event")
	b.ReportMetric(n/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkMessage measures the steps of a message.
func BenchmarkMessage(b *testing.B) {
	msg := riemanntest.Message(perMessage)
	m, err := walk(msg)
	must.NoError(b, err)
	b.Run("walk", func(b *testing.B) {
		begin := cpu()
		for b.Loop() {
			if _, err := walk(msg); err != nil {
				b.Fatal(err)
			}
		}
		perEvent(b, begin)
	})
	b.Run("transcode", func(b *testing.B) {
		buf, begin := make([]byte, 0, m.room()), cpu()
		for b.Loop() {
			if data, _ := transcode(msg, buf, 1); len(data) == 0 {
				b.Fatal("no data")
			}
		}
		perEvent(b, begin)
	})
}

// pipeline sends n messages on a connection and waits for the answers.
func pipeline(b *testing.B, addr string, n int) {
	left, answers := n, 0
	p := riemanntest.Pipeline{
		Message: riemanntest.WithLength(riemanntest.Message(perMessage)), Window: queuedMessages,
		More:     func() bool { left--; return left >= 0 },
		Answered: func() { answers++ },
	}
	if err := p.Run(addr); err != nil || answers != n {
		b.Fatalf("%d of %d answers, %v", answers, n, err)
	}
}

// BenchmarkLoad measures pipelined messages through loopback: to a bucket on disk, with a sync before
// each answer; to one in memory; and to a server that reads, counts and answers.
func BenchmarkLoad(b *testing.B) {
	run := func(name, addr string) {
		b.Run(name, func(b *testing.B) {
			pipeline(b, addr, 1) // the topic exists
			begin := cpu()
			b.ResetTimer()
			pipeline(b, addr, b.N)
			perEvent(b, begin)
		})
	}
	disk, err := objstore.OpenDisk(b.TempDir(), objstore.DiskOptions{})
	must.NoError(b, err)
	run("disk", start(b, func(c *setup) { c.store, c.limit = disk, 256<<20 }).addr)
	run("memory", start(b, func(c *setup) { c.limit = 256 << 20 }).addr)
	bare, err := riemanntest.NewBare("127.0.0.1:0")
	must.NoError(b, err)
	b.Cleanup(func() { _ = bare.Close() })
	run("bare", bare.Addr())
}

// BenchmarkDatagrams measures datagrams of one event, stored in memory. So many are sent at a time that
// the kernel drops none.
func BenchmarkDatagrams(b *testing.B) {
	s := start(b, func(c *setup) { c.limit = 256 << 20 })
	c, msg := s.datagrams(), riemanntest.Message(1)
	begin := cpu()
	const atOnce = 500
	sent := 0
	for b.Loop() {
		for range atOnce {
			if _, err := c.Write(msg); err != nil {
				b.Fatal(err)
			}
		}
		for sent += atOnce; s.counter("seb_riemann_datagrams_total") < uint64(sent); {
			runtime.Gosched()
		}
	}
	n := float64(b.N * atOnce)
	b.ReportMetric(float64(cpu()-begin)/n, "cpu-ns/datagram")
	b.ReportMetric(n/b.Elapsed().Seconds(), "datagrams/s")
	b.ReportMetric(float64(s.counter("seb_riemann_datagrams_dropped_total"))/n, "dropped/datagram")
}

// BenchmarkQueue compares a queue before the decoder with one behind it. Both bound the memory of what
// is queued. Before the decoder the size is the length of the message. Behind it the size must be
// estimated from the decoded objects, by reflection.
func BenchmarkQueue(b *testing.B) {
	msg := riemanntest.Message(perMessage)
	b.Run("before", func(b *testing.B) {
		queue, begin := make(chan []byte, 64), cpu()
		var handling sync.WaitGroup
		handling.Go(func() {
			m, _ := walk(msg)
			buf := make([]byte, 0, m.room())
			for got := range queue {
				if _, err := walk(got); err == nil {
					transcode(got, buf, 1)
				}
			}
		})
		size := 0
		for b.Loop() {
			size += len(msg)
			queue <- msg
		}
		close(queue)
		handling.Wait()
		perEvent(b, begin)
	})
	b.Run("behind", func(b *testing.B) {
		queue, begin := make(chan []*event, 64), cpu()
		var handling sync.WaitGroup
		handling.Go(func() {
			m, _ := walk(msg)
			buf, c := make([]byte, 0, m.room()), new(codec)
			for events := range queue {
				c.builder.Reset(buf, 1)
				for _, e := range events {
					c.event = *e
					c.add()
				}
				c.builder.Finish()
			}
		})
		size := 0
		for b.Loop() {
			events, err := decode(msg)
			must.NoError(b, err)
			size += sizeOf(reflect.ValueOf(events))
			queue <- events
		}
		close(queue)
		handling.Wait()
		perEvent(b, begin)
	})
}

// decode makes an object of each event of a message.
func decode(b []byte) (events []*event, err error) {
	var f field
	for len(b) > 0 {
		if b, err = f.read(b); err != nil {
			return nil, err
		}
		if !f.isEvent() {
			continue
		}
		e := new(event)
		if err := e.parse(bytes.Clone(f.b)); err != nil {
			return nil, err
		}
		for _, t := range []*text{&e.host, &e.service, &e.state, &e.description} {
			*t = bytes.Clone(*t)
		}
		for i := range e.attributes {
			a := &e.attributes[i]
			a.key, a.value = bytes.Clone(a.key), bytes.Clone(a.value)
		}
		events = append(events, e)
	}
	return events, nil
}

// sizeOf estimates the memory of an object.
func sizeOf(v reflect.Value) (n int) {
	n = int(v.Type().Size())
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += sizeOf(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return n + v.Len()
		}
		for i := range v.Len() {
			n += sizeOf(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i))
		}
	}
	return n
}
