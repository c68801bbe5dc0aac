package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
)

// writer produces numbers to topic demo, one record per request, until it is stopped. It retries
// while the broker is restarted.
type writer struct {
	end  context.CancelFunc
	done chan struct{}

	mu    sync.Mutex // guards the fields below
	acked []string
	err   error
}

func newWriter(m machine, port string) (*writer, error) {
	key, err := os.ReadFile(m.path(keyFile))
	if err != nil {
		return nil, err
	}
	c, err := client.New("http://127.0.0.1:"+port, client.Options{APIKey: strings.TrimSpace(string(key)), RetryTime: 2 * time.Minute})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(m.ctx)
	w := &writer{end: end, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer c.Close()
		w.run(ctx, c)
	}()
	return w, nil
}

func (w *writer) run(ctx context.Context, c *client.Client) {
	for i := 0; ctx.Err() == nil; i++ {
		// Without ctx: a cancelled request would have an unknown outcome.
		value := strconv.Itoa(i)
		_, err := c.ProduceValues(context.WithoutCancel(ctx), "demo", [][]byte{[]byte(value)}, client.ProduceOptions{})
		w.mu.Lock()
		if err == nil {
			w.acked = append(w.acked, value)
		}
		w.err = err
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// more waits until 100 more records are acknowledged.
func (w *writer) more() error {
	const records, limit = 100, 2 * time.Minute
	count := func() (int, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.acked), w.err
	}
	begin, _ := count()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if n, err := count(); err != nil || n >= begin+records {
			return err
		}
	}
	return fmt.Errorf("not %d more records acknowledged within %s", records, limit)
}

// stop returns the acknowledged records. It may be called twice.
func (w *writer) stop() ([]string, error) {
	w.end()
	<-w.done
	if len(w.acked) == 0 && w.err == nil {
		return nil, errors.New("no record acknowledged")
	}
	return w.acked, w.err
}
