package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"
)

// singleMost is the CPU time of a request with one record, relative to the bare server.
const singleMost = 1.25

const (
	singleTopic = "single"
	singleBytes = 256
)

// singleConnections are the numbers of connections, and of requests of a turn: so few that the broker
// does not merge objects during a turn, even if each request becomes an object.
var singleConnections = []struct{ connections, requests int }{{1, 10_000}, {16, 24_000}, {600, 60_000}}

// single compares the CPU time of requests with one record of 256 bytes to that of a bare server.
// Both are processes of their own, so that the load generator does not count, and take n turns.
// Each connection sends its next request after the answer. args are those of the broker, which is
// new for each turn. It calls done after each turn.
func (p *place) single(ctx context.Context, args string, connections, requests, n int, done func()) (Check, error) {
	bare, address, err := startBare("")
	if err != nil {
		return Check{}, err
	}
	defer bare.Kill()
	var ratios, ofSeb, ofBare []float64
	for range n {
		a, _, err := (&singleServer{[]int{bare.Pid()}, address, ""}).load(connections, max(connections, requests))
		if err != nil {
			return Check{}, err
		}
		done()
		b, err := p.singleTurn(ctx, args, connections, max(connections, requests))
		if err != nil {
			return Check{}, err
		}
		done()
		ratios, ofBare, ofSeb = append(ratios, b/a), append(ofBare, a), append(ofSeb, b)
	}
	ratio := report.SpreadOf(ratios)
	return Check{
		fmt.Sprintf("CPU of a request with one record, %d connections", connections), fmt.Sprintf("≤ %.2f of a bare server", singleMost),
		fmt.Sprintf("%s: %s µs, bare server %s µs", ratio.Format("%.2f"), report.SpreadOf(ofSeb).Format("%.1f"), report.SpreadOf(ofBare).Format("%.1f")),
		ratio.Middle <= singleMost,
	}, nil
}

// singleTurn measures a new broker.
func (p *place) singleTurn(ctx context.Context, args string, connections, requests int) (cpu float64, err error) {
	err = p.within(func(tmpfs, disk string) error {
		b, err := p.serve("mem:", filepath.Join(disk, "data"), strings.Fields(strings.ReplaceAll(args, "{tmpfs}", tmpfs))...)
		if err != nil {
			return err
		}
		defer b.Kill()
		if _, err := b.client.PutTopic(ctx, singleTopic, client.TopicSpec{Partitions: 1}); err != nil {
			return err
		}
		at, err := url.Parse(b.url)
		if err != nil {
			return err
		}
		if cpu, _, err = (&singleServer{[]int{b.Pid()}, at.Host, b.key}).load(connections, requests); err != nil {
			return err
		}
		return b.stop()
	})
	return cpu, err
}

// singleServer is a server that receives requests of one record.
type singleServer struct {
	pids         []int // of its processes
	address, key string
}

// load sends requests over a number of connections, and returns the CPU time of the server per
// request and the mean latency in microseconds. Some requests before that warm the server up.
func (s *singleServer) load(connections, requests int) (cpu, latency float64, err error) {
	head := fmt.Sprintf("POST /records?topic-name=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		singleTopic, s.address, s.key, api.OctetStream, singleBytes)
	request := []byte(head + strings.Repeat("x", singleBytes))
	conns := make([]*singleConn, connections)
	for i := range conns {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Close()
		conns[i] = &singleConn{conn, bufio.NewReader(conn)}
	}
	send := func(requests int) error {
		var wg sync.WaitGroup
		errs := make([]error, connections)
		for i, c := range conns {
			wg.Go(func() {
				for n := i; n < requests && errs[i] == nil; n += connections {
					errs[i] = c.do(request)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := send(max(connections, requests/8)); err != nil {
		return 0, 0, err
	}
	before, err := s.cpuTime()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := send(requests); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	after, err := s.cpuTime()
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(requests) }
	return micros(after - before), micros(took) * float64(connections), err
}

func (s *singleServer) cpuTime() (sum time.Duration, err error) {
	for _, pid := range s.pids {
		t, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// singleConn is a connection of the load generator.
type singleConn struct {
	net.Conn
	in *bufio.Reader
}

// do sends a request and reads the answer.
func (c *singleConn) do(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	status, length := "", 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("head of an answer: %w", err)
		}
		text := strings.TrimSuffix(string(line), "\r\n")
		if text == "" {
			break
		}
		status = cmp.Or(status, text)
		if v, ok := strings.CutPrefix(text, "Content-Length: "); ok {
			if length, err = strconv.Atoi(v); err != nil {
				return fmt.Errorf("length of an answer: %w", err)
			}
		}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("body of an answer: %w", err)
	}
	if status != "HTTP/1.1 201 Created" {
		return fmt.Errorf("%s: %.300s", status, body)
	}
	return nil
}

// cpuTime returns the CPU time of a process (clock_getcpuclockid of POSIX).
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED of Linux
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// bareVariable makes this program a bare server, or a bare proxy if it has an address.
const bareVariable = "SEB_PERF_BARE"

// startBare starts a bare server, or a bare proxy to an address, and returns its own.
func startBare(to string) (*testenv.Broker, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	address := make(chan string, 1)
	b, err := testenv.StartProgram(self, []string{bareVariable + "=" + cmp.Or(to, "1")}, func(line string) { address <- line })
	if err != nil {
		return nil, "", err
	}
	select {
	case a := <-address:
		return b, a, nil
	case <-b.Done():
		return nil, "", fmt.Errorf("the bare server ended by itself\n%s", b.Log())
	}
}

// serveBare prints the address of a bare server and serves: net/http, which reads the body and
// answers with the headers of Seb and a body of the same length.
func serveBare() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(lis.Addr())
	if to := os.Getenv(bareVariable); to != "1" {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
		proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
		return (&http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}).Serve(lis)
	}
	buffers := sync.Pool{New: func() any { return new([singleBytes]byte) }}
	answer := []byte(`{"topic":"` + singleTopic + `","partition":0,"first_offset":1234567,"count":1}`)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /records", func(w http.ResponseWriter, r *http.Request) {
		buf := buffers.Get().(*[singleBytes]byte)
		defer buffers.Put(buf)
		if _, err := io.ReadFull(r.Body, buf[:]); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Type", api.JSON)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set(api.HeaderEpoch, "1")
		h.Set("Content-Length", strconv.Itoa(len(answer)))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer) // a client that left notices it itself
	})
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(lis)
}
