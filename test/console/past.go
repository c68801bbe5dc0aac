package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/record"
)

// past writes events into an empty bucket as if a broker had stored them at earlier times. Each line
// is a JSON object with the time, the entity and the event itself: {"at":…,"entity":…,"value":{…}}.
// Times are in milliseconds since 1970 and must not decrease.
func past(ctx context.Context, bucket string, lines io.Reader) (err error) {
	var micros atomic.Int64
	var n *node.Node
	defer func() {
		if n != nil {
			if closed := n.Close(context.WithoutCancel(ctx)); err == nil {
				err = closed
			}
		}
	}()
	s := bufio.NewScanner(lines)
	for s.Scan() {
		var e struct {
			At     int64
			Entity string
			Value  json.RawMessage
		}
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return err
		}
		if before := micros.Swap(e.At * 1000); before > e.At*1000 {
			return fmt.Errorf("event at %d: time decreases", e.At)
		}
		if n == nil {
			if n, err = open(ctx, bucket, &micros); err != nil {
				return err
			}
		}
		data, sum, err := record.Append(nil, []record.Record{{Key: []byte(e.Entity), Value: e.Value, Timestamp: e.At}}, record.EncodeOptions{})
		if err != nil {
			return err
		}
		r := n.Submit(ctx, []broker.Append{{Topic: events, Data: data, Summary: sum, ExpectedOffset: -1}}).Wait(ctx)
		if r[0].Err != nil {
			return r[0].Err
		}
	}
	return s.Err()
}

const events = "events"

// open opens a broker whose clock is in micros, with a topic of events.
func open(ctx context.Context, bucket string, micros *atomic.Int64) (*node.Node, error) {
	n, err := node.Open(ctx, node.Options{
		Bucket: filepath.Clean(bucket), BatchWait: node.BatchNone, NoMerge: true,
		Clocks: func() log.Reading {
			now := micros.Load()
			return log.Reading{Mono: now * int64(time.Microsecond), Wall: now}
		},
	})
	if err != nil {
		return nil, err
	}
	if _, err := n.CreateTopic(ctx, events, broker.TopicSpec{Settings: rules.EventSettings}); err != nil {
		_ = n.Close(ctx)
		return nil, err
	}
	return n, nil
}
