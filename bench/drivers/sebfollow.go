package drivers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/record"
)

// sebPart is a partition that a subscriber follows from an offset on.
type sebPart struct {
	partition int32
	from      int64
}

// records returns the records of a partition from an offset on, until ctx ends.
type records func(ctx context.Context, p sebPart) iter.Seq2[*record.Record, error]

// followAll passes the values of all parts to f, one at a time, until ctx ends (nil) or a part
// fails.
func followAll(ctx context.Context, parts []sebPart, read records, f func([]byte)) error {
	if len(parts) == 0 {
		<-ctx.Done()
		return nil
	}
	if len(parts) == 1 {
		return followOne(ctx, parts[0], read, f)
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	values, taken := make(chan []byte), make(chan struct{})
	var readers sync.WaitGroup
	for _, p := range parts {
		readers.Go(func() {
			err := followOne(within, p, read, func(value []byte) {
				select {
				case values <- value:
					<-taken // the value belongs to the reader
				case <-within.Done():
				}
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for {
		select {
		case value := <-values:
			f(value)
			taken <- struct{}{}
		case <-within.Done():
			readers.Wait()
			if ctx.Err() != nil {
				return nil
			}
			return context.Cause(within)
		}
	}
}

func followOne(ctx context.Context, p sebPart, read records, f func([]byte)) error {
	for r, err := range read(ctx, p) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("partition %d: %w", p.partition, err)
		}
		f(r.Value)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("partition %d: %w", p.partition, errEnded)
}

var errEnded = errors.New("the stream of records ended")

var errLateShare = errors.New("all shared subscribers must join before the first of them receives")

// sharing distributes the partitions to shared subscribers. Seb's groups only keep offsets; the
// readers decide what each reads.
type sharing struct {
	mu      sync.Mutex // guards the fields below
	joined  int        // in this process
	members int        // in all processes
	begun   bool
}

// join returns the number of the next member.
func (s *sharing) join(c *sut.Config) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return 0, errLateShare
	}
	s.joined++
	s.members = s.joined
	if c.Group != nil {
		s.members = c.Group.SubscribersAll
	}
	return c.SubscriberNumber(s.joined - 1), nil
}

// share returns a member's parts.
func (s *sharing) share(member int, parts []sebPart) []sebPart {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	var own []sebPart
	for i, p := range parts {
		if i%s.members == member {
			own = append(own, p)
		}
	}
	return own
}
