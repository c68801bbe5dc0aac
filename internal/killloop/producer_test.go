package killloop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/client"
)

const (
	topic         = "killed"
	partitions    = 3
	producers     = 4
	recordsAtOnce = 8 // most records of one request
	apiKey        = "kill-loop-key"
)

// id names a record: the producer that sent it, and its place in what that one sent.
type id struct{ producer, seq int }

// value is the record: its id and some weight.
func (i id) value(pad int) []byte {
	return fmt.Appendf(nil, "%d %d %s", i.producer, i.seq, strings.Repeat("x", pad))
}

func parseID(value []byte) (i id, err error) {
	_, err = fmt.Sscanf(string(value), "%d %d ", &i.producer, &i.seq)
	return i, err
}

// ledger is what the producers were told, in a file outside the broker: each line is written out before the producer
// goes on.
type ledger struct {
	mu    sync.Mutex // guards w
	w     *bufio.Writer
	file  *os.File
	acks  atomic.Int64 // answers, not records
	doubt atomic.Int64 // answers that did not come
}

func newLedger(path string) (*ledger, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &ledger{w: bufio.NewWriter(f), file: f}, nil
}

// acked notes records first, first+1, ... of a producer at a partition's offsets from base on.
func (l *ledger) acked(first id, n int, p client.Placed) error {
	l.acks.Add(1)
	return l.write("acked", first, n, p.Partition, p.First)
}

func (l *ledger) unknown(first id, n int) error {
	l.doubt.Add(1)
	return l.write("unknown", first, n, -1, -1)
}

func (l *ledger) write(what string, first id, n int, partition int32, base int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %d %d %d %d %d\n", what, first.producer, first.seq, n, partition, base)
	return l.w.Flush()
}

// producer sends one request after the other to whichever broker is there.
type producer struct {
	number int
	rng    *rand.Rand
	ledger *ledger
	target *atomic.Pointer[client.Client]
}

// run sends until ctx ends. It returns an error only for what can not be explained by a killed broker.
func (p *producer) run(ctx context.Context) error {
	next := id{producer: p.number}
	for ctx.Err() == nil {
		n := 1 + p.rng.IntN(recordsAtOnce)
		values := make([][]byte, n)
		for i := range values {
			values[i] = id{p.number, next.seq + i}.value(p.rng.IntN(200))
		}
		done, err := p.send(ctx, next, values)
		if err != nil {
			return err
		}
		if done {
			next.seq += n
		}
	}
	return nil
}

// rejectedPause is between attempts while no broker is there.
const rejectedPause = 3 * time.Millisecond

// send makes one request. It reports whether the records' numbers are used up; those of rejected records are not: they
// are sent again under the same ids, and found twice in the end if a rejected record did appear.
func (p *producer) send(ctx context.Context, first id, values [][]byte) (done bool, err error) {
	partition := int32(p.rng.IntN(partitions))
	placed, err := p.target.Load().ProduceValues(ctx, topic, values, client.ProduceOptions{Partition: &partition})
	switch {
	case err == nil:
		if len(placed) != 1 || placed[0].Partition != partition || placed[0].Count != int64(len(values)) {
			return false, fmt.Errorf("answer %v for %d records to partition %d", placed, len(values), partition)
		}
		return true, p.ledger.acked(first, len(values), placed[0])
	case errors.Is(err, client.ErrOutcomeUnknown):
		return true, p.ledger.unknown(first, len(values))
	case errors.Is(err, client.ErrRejected):
		var e *client.Error
		if errors.As(err, &e) && e.Status >= 400 && e.Status < 500 && e.Status != 429 {
			return false, fmt.Errorf("producer %d: %w", p.number, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rejectedPause):
		}
		return false, nil
	}
	return false, fmt.Errorf("producer %d: error of no outcome: %w", p.number, err)
}
