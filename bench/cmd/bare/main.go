// Command bare serves the HTTP requests of the driver seb with net/http and no broker: messages of a
// topic go to its one subscriber as server-sent events, and with -file into one flushed file first.
// Nothing is validated, read again or ordered between topics. So a run against it shows what HTTP, the
// disk and the load generator take of Seb's latency.
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/record"
)

const (
	bodyMax   = 64 << 20
	fileBytes = 256 << 20 // written with zeros beforehand, then from the start again
	blockSize = 4 << 10   // a write begins at a multiple of it
)

func main() {
	listen := flag.String("listen", "127.0.0.1:51399", "address of the server")
	file := flag.String("file", "", "file for the messages, which is overwritten; none: they are only in memory")
	flag.Parse()
	machine.AddProcessor()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	lis, err := net.Listen("tcp", *listen)
	if err == nil {
		err = serve(lis, *file, ended)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func serve(lis net.Listener, file string, ended <-chan os.Signal) error {
	s := newServer()
	if file != "" {
		if err := s.open(file); err != nil {
			return err
		}
	}
	failed := make(chan error, 2)
	go func() { failed <- s.store() }()
	h := &http.Server{Handler: s.routes(), ReadHeaderTimeout: time.Minute}
	go func() { failed <- h.Serve(lis) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return h.Close()
	}
}

// server has the topics, and the requests that wait for a flush.
type server struct {
	file *os.File // nil: none
	puts chan put

	mu     sync.Mutex // guards topics
	topics map[string]*topic
}

type put struct {
	body   []byte
	stored chan struct{}
}

// topic has the events that its subscriber has not read.
type topic struct {
	mu     sync.Mutex // guards the fields below
	next   int64      // offset
	events []byte
	more   chan struct{} // receives after events are added
}

func newServer() *server {
	return &server{puts: make(chan put, 1000), topics: map[string]*topic{}}
}

// open makes the file and writes it with zeros, like the journal of Seb.
func (s *server) open(name string) (err error) {
	if s.file, err = os.Create(name); err != nil {
		return err
	}
	if _, err := io.CopyN(s.file, zeros{}, fileBytes); err != nil {
		return err
	}
	return s.file.Sync()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// store writes the requests that wait together, one group after the other.
func (s *server) store() error {
	var buf []byte
	position := int64(0)
	for p := range s.puts {
		group := []put{p}
		buf = append(buf[:0], p.body...)
		for len(s.puts) > 0 {
			p := <-s.puts
			group, buf = append(group, p), append(buf, p.body...)
		}
		if s.file != nil {
			buf = append(buf, make([]byte, -len(buf)&(blockSize-1))...)
			if position+int64(len(buf)) > fileBytes {
				position = 0
			}
			if _, err := s.file.WriteAt(buf, position); err != nil {
				return err
			}
			if err := unix.Fdatasync(int(s.file.Fd())); err != nil {
				return err
			}
			position += int64(len(buf))
		}
		for _, p := range group {
			close(p.stored)
		}
	}
	return nil
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /topic", func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusCreated, described(r)) })
	mux.HandleFunc("GET /topic", func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, described(r)) })
	mux.HandleFunc("DELETE /topic", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("POST /records", s.produce)
	mux.HandleFunc("GET /records", s.follow)
	return mux
}

func described(r *http.Request) api.Topic {
	return api.Topic{Name: r.FormValue("topic-name"), Partitions: []api.Partition{{}}}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", api.JSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left notices it itself
}

func (s *server) topic(r *http.Request) *topic {
	name := r.FormValue("topic-name")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[name] == nil {
		s.topics[name] = &topic{more: make(chan struct{}, 1)}
	}
	return s.topics[name]
}

// produce stores batches, passes their records on, and then answers.
func (s *server) produce(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > bodyMax {
		http.Error(w, fmt.Sprintf("Content-Length: want 0 to %d, have %d", bodyMax, r.ContentLength), http.StatusBadRequest)
		return
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p := put{body, make(chan struct{})}
	s.puts <- p
	<-p.stored
	first, count, err := s.topic(r).add(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, http.StatusCreated, api.Produced{Topic: r.FormValue("topic-name"), Partition: new(int32(0)), FirstOffset: &first, Count: count})
}

// add appends the records of batches as events.
func (t *topic) add(batches []byte) (first, count int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = t.next
	for rest := batches; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Split(rest); err != nil {
			return 0, 0, err
		}
		var records record.Reader
		for records.Reset(b, 0); records.Next(); t.next++ {
			t.events = append(t.events, `data:{"offset":`...)
			t.events = append(strconv.AppendInt(t.events, t.next, 10), `,"value_base64":"`...)
			t.events = append(base64.StdEncoding.AppendEncode(t.events, records.Record().Value), "\"}\n\n"...)
		}
		if err := records.Err(); err != nil {
			return 0, 0, err
		}
	}
	select {
	case t.more <- struct{}{}:
	default:
	}
	return first, t.next - first, nil
}

// follow sends the events of a topic until the subscriber leaves.
func (s *server) follow(w http.ResponseWriter, r *http.Request) {
	t, stream := s.topic(r), http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	var events []byte
	for {
		t.mu.Lock()
		events, t.events = t.events, events[:0]
		t.mu.Unlock()
		if _, err := w.Write(events); errors.Join(err, stream.Flush()) != nil {
			return
		}
		select {
		case <-t.more:
		case <-r.Context().Done():
			return
		}
	}
}
