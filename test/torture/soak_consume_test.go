package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// verify compares a record with its id.
func verify(p *ledger, r *record.Record) error {
	i, err := idOf(r)
	if err != nil || i.topic != p.name || !same(r, i, p.keyed) {
		return fmt.Errorf("%s returned at offset %d: %.80q", p.name, r.Offset, r.Value)
	}
	return nil
}

// follow reads a topic for a group until ctx ends, and commits. It starts a new session regularly,
// like another consumer.
func (l *load) follow(ctx context.Context, p *ledger, group string, session time.Duration) {
	l.others.Go(func() {
		finished := int64(0) // offset after the last processed record
		for ctx.Err() == nil {
			if err := l.session(ctx, p, group, session, &finished); err != nil {
				l.fail(fmt.Errorf("group %s: %w", group, err))
				return
			}
		}
	})
}

func (l *load) session(ctx context.Context, p *ledger, group string, session time.Duration, finished *int64) error {
	k, err := l.reader.Consumer(ctx, group, p.name, client.ConsumerOptions{Follow: true, CommitEvery: 500 * time.Millisecond})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	l.resumed.Add(1)
	over, cancel := context.WithTimeout(ctx, session)
	defer cancel()
	at := int64(-1)
	for {
		m, err := k.Next(over)
		switch {
		case over.Err() != nil:
			return k.Close(context.Background())
		case errors.Is(err, client.ErrBelowStart) && p.partial:
			return errors.Join(l.skip(p, group), k.Close(context.Background()))
		case err != nil:
			return errors.Join(err, k.Close(context.Background()))
		}
		if err := verify(p, m.Record); err != nil {
			return err
		}
		first := at < 0
		switch {
		case p.keyed:
		case first && !p.partial && m.Offset > *finished:
			return fmt.Errorf("%s: resumed at %d, last offset was %d", p.name, m.Offset, *finished-1)
		case !first && m.Offset != at:
			return fmt.Errorf("%s: offset %d after %d", p.name, m.Offset, at-1)
		}
		at = m.Offset + 1
		*finished = max(*finished, at)
		l.consumed.Add(1)
	}
}

// skip moves a group to the start of its topic, after its next records were trimmed.
func (l *load) skip(p *ledger, group string) error {
	t, err := l.reader.Topic(context.Background(), p.name)
	if err != nil {
		return err
	}
	return l.reader.CommitOffsets(context.Background(), group, client.OffsetCommit{Topic: p.name, Offset: t.Partitions[0].Start})
}

// historyMost bounds the records of one read of history.
const historyMost = 2000

// read reads the beginning of one topic after the other, like a client that searches old records.
func (l *load) read(ctx context.Context, seed uint64, pause time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 1))
	l.others.Go(func() {
		for ctx.Err() == nil {
			p := l.topics[rng.IntN(len(l.topics))]
			if p.renewed {
				continue // the topic may be recreated during a read
			}
			if err := l.readOnce(ctx, p); err != nil && ctx.Err() == nil {
				l.fail(fmt.Errorf("read %s: %w", p.name, err))
				return
			}
			l.rest(pause)
		}
	})
}

func (l *load) readOnce(ctx context.Context, p *ledger) error {
	count, at := 0, int64(-1)
	for r, err := range l.reader.Records(ctx, p.name, client.ReadOptions{Offset: client.Earliest}) {
		switch {
		case errors.Is(err, client.ErrBelowStart) && p.partial:
			return nil // trimmed meanwhile
		case err != nil:
			return err
		}
		if err := verify(p, r); err != nil {
			return err
		}
		if at >= 0 && r.Offset != at && !p.keyed {
			return fmt.Errorf("offset %d after %d", r.Offset, at-1)
		}
		at = r.Offset + 1
		if count++; count == historyMost {
			break
		}
	}
	l.history.Add(int64(count))
	return nil
}
