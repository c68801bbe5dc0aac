package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Values of Params.Bare: the actions of a bare server for a body.
const (
	BareNone = "none" // ignores it
	BareFile = "file" // appends each body to a file, or answers with ranges of one
	BareSync = "sync" // like file, with an fsync of each full file
)

// bareFileSize is the size at which the server starts another file.
const bareFileSize = 10 << 20

// bare is the server for comparisons: net/http, bodies read into pooled buffers, one write per
// body, ranges of one open file. It guarantees nothing, verifies nothing and cannot find data
// again.
type bare struct {
	kind       string
	dir        string
	recordSize int64
	server     *http.Server
	served     chan error
	buffers    sync.Pool // of *[]byte

	mu      sync.Mutex // guards the following fields
	file    *os.File
	written int64 // bytes in file
	files   int
}

// startBare starts a bare server on a new folder inside BareDir, with the data to read, if there is
// any.
func (p *Params) startBare(pay *payload) (_ Broker, err error) {
	dir, err := os.MkdirTemp(p.BareDir, "seb_bare*")
	if err != nil {
		return Broker{}, err
	}
	b := &bare{kind: p.Bare, dir: dir, recordSize: int64(p.RecordSize), served: make(chan error, 1)}
	if p.Read != nil {
		if err := b.fill(pay.data, p.Batches); err != nil {
			return Broker{}, errors.Join(err, os.RemoveAll(dir))
		}
	}
	// as large as the first body, because thousands of workers send small ones
	b.buffers.New = func() any { return new([]byte) }
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Broker{}, errors.Join(err, os.RemoveAll(dir))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /records", b.write)
	mux.HandleFunc("GET /records", b.read)
	b.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { b.served <- b.server.Serve(lis) }()
	return Broker{URL: "http://" + lis.Addr().String(), Close: b.close}, nil
}

func (b *bare) close() error {
	err := b.server.Close()
	if served := <-b.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if b.file != nil {
		err = errors.Join(err, b.file.Close())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *bare) write(w http.ResponseWriter, r *http.Request) {
	buf := b.buffers.Get().(*[]byte)
	defer b.buffers.Put(buf)
	if int64(cap(*buf)) < r.ContentLength {
		*buf = make([]byte, r.ContentLength)
	}
	body := (*buf)[:max(r.ContentLength, 0)]
	_, err := io.ReadFull(r.Body, body)
	if err == nil && b.kind != BareNone {
		err = b.append(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (b *bare) append(body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		f, err := os.Create(filepath.Join(b.dir, strconv.Itoa(b.files)))
		if err != nil {
			return err
		}
		b.file, b.written = f, 0
		b.files++
	}
	n, err := b.file.Write(body)
	b.written += int64(n)
	if err != nil || b.written < bareFileSize {
		return err
	}
	if b.kind == BareSync {
		err = b.file.Sync()
	}
	err = errors.Join(err, b.file.Close())
	b.file = nil
	return err
}

// fill writes the file whose ranges are read.
func (b *bare) fill(data []byte, times int) error {
	f, err := os.Create(filepath.Join(b.dir, "ranges"))
	if err != nil {
		return err
	}
	b.file = f
	for range times {
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) read(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, err1 := strconv.ParseInt(q.Get("offset"), 10, 64)
	n, err2 := strconv.ParseInt(q.Get("max-records"), 10, 64)
	size := n * b.recordSize
	if err := errors.Join(err1, err2); err != nil || size <= 0 || size > 1<<30 {
		http.Error(w, "offset or max-records", http.StatusBadRequest)
		return
	}
	buf := b.buffers.Get().(*[]byte)
	defer b.buffers.Put(buf)
	if int64(cap(*buf)) < size {
		*buf = make([]byte, size)
	}
	if _, err := b.file.ReadAt((*buf)[:size], from*b.recordSize); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	_, _ = w.Write((*buf)[:size]) // a client that left notices it itself
}

// bareRequest sends the payload and expects a 201.
func (t *target) bareRequest(pay *payload) request {
	return func(ctx context.Context, _ int) (int64, int64, error) {
		resp, err := t.post(ctx, pay)
		if err != nil {
			return 0, 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return int64(pay.records), pay.bytes, err
	}
}

// bare reads the bytes of count records from offset.
func (r *reader) bare(ctx context.Context, offset int64) (int64, int64, error) {
	q := url.Values{"offset": {strconv.FormatInt(offset, 10)}, "max-records": {strconv.Itoa(r.count)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.target.url+"/records?"+q.Encode(), nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := r.target.do(req, http.StatusOK)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	size := int64(r.count) * int64(r.size)
	if resp.ContentLength != size {
		return 0, 0, fmt.Errorf("%d bytes, want %d", resp.ContentLength, size)
	}
	if err := r.values(resp.Body, size); err != nil {
		return 0, 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return int64(r.count), size, err
}
