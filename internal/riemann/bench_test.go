package riemann

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"reflect"
	"sync"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/internal/objstore"
)

// perMessage is the number of events in the messages of benchmarks, as in Riemann's own load test.
const perMessage = 100

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
	msg := usual(perMessage)
	m, err := walk(msg)
	if err != nil {
		b.Fatal(err)
	}
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

// pipeline sends n messages on a connection and reads the answers meanwhile, of which it returns the
// number of bytes.
func pipeline(b *testing.B, addr string, n int) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	msg := withLength(usual(perMessage))
	var sending sync.WaitGroup
	sending.Go(func() {
		w := bufio.NewWriterSize(c, 64<<10)
		for range n {
			_, _ = w.Write(msg) // an error shows as a missing answer
		}
		_ = w.Flush()
	})
	answers := make([]byte, 6*n)
	if _, err := io.ReadFull(c, answers); err != nil {
		b.Fatal(err)
	}
	sending.Wait()
	for i := 0; i < len(answers); i += 6 {
		if string(answers[i:i+6]) != "\x00\x00\x00\x02\x10\x01" {
			b.Fatalf("answer %d: %x", i/6, answers[i:i+6])
		}
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
	disk, err := objstore.Open(b.Context(), "file:"+b.TempDir(), objstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	run("disk", start(b, func(c *setup) { c.store, c.limit = disk, 256<<20 }).addr)
	run("memory", start(b, func(c *setup) { c.limit = 256 << 20 }).addr)
	run("bare", bareServer(b))
}

// bareServer answers each message when it has read it.
func bareServer(b *testing.B) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				r := bufio.NewReaderSize(c, 64<<10)
				for {
					head, err := r.Peek(lengthBytes)
					if err != nil {
						return
					}
					n := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
					if _, err := r.Discard(lengthBytes + n); err != nil {
						return
					}
					if _, err := c.Write([]byte("\x00\x00\x00\x02\x10\x01")); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// BenchmarkQueue compares a queue before the decoder with one behind it. Both bound the memory of what
// is queued. Before the decoder the size is the length of the message. Behind it the size must be
// estimated from the decoded objects, by reflection.
func BenchmarkQueue(b *testing.B) {
	msg := usual(perMessage)
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
			if err != nil {
				b.Fatal(err)
			}
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
