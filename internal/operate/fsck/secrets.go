package fsck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	triggerstore "github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// triggersTopic has the definitions of triggers, and its name is that of their view.
const triggersTopic = "triggers"

// FindSecrets reports each object of the bucket with readable secrets of triggers: commit objects
// and packs, with or without a reference, and complete copies of the trigger database. It returns
// their number. Errors: those of End, of the store and of a temporary file.
func FindSecrets(ctx context.Context, o Options) (found int, err error) {
	st, err := End(ctx, o.Store, o.Shard)
	if err != nil {
		return 0, err
	}
	c := newChecker(o)
	topic := st.TopicByName(triggersTopic)
	if topic == nil {
		return 0, nil
	}
	exposed := func(key, text string) {
		found++
		c.o.Found(Finding{Severity: Exposed, Kind: "readable secrets", Key: key, Text: text})
	}
	if err := c.scanLog(ctx, topic.ID, exposed); err != nil {
		return found, err
	}
	return found, c.scanViews(ctx, st, exposed)
}

// scanLog reads the heads of all commit objects and packs, and the batches of a topic.
func (c *checker) scanLog(ctx context.Context, topic record.ID, exposed func(key, text string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keys := make(chan string)
	var readers sync.WaitGroup
	for range c.o.Readers {
		readers.Go(func() {
			for key := range keys {
				id, err := c.scanObject(ctx, key, topic)
				if err != nil && !errors.Is(err, objstore.ErrNotFound) { // else collected meanwhile
					cancel(fmt.Errorf("read %s: %w", key, err))
				}
				c.mu.Lock()
				if id != "" {
					exposed(key, "of trigger "+id)
				}
				c.mu.Unlock()
				c.verified(0, false)
			}
		})
	}
	err := c.list(ctx, "", "", func(e objstore.Entry) bool {
		_, slot := parseSlot(c.o.Shard, strings.TrimSuffix(e.Key, state.RecoverySuffix))
		if _, pack := parsePack(c.o.Shard, e.Key); slot || pack {
			select {
			case keys <- e.Key:
			case <-ctx.Done():
			}
		}
		return ctx.Err() == nil
	})
	close(keys)
	readers.Wait()
	return errors.Join(err, context.Cause(ctx))
}

// scanObject returns the ID of a trigger with readable secrets in an object; "" if there is none. A
// corrupt object has none, because Run reports it.
func (c *checker) scanObject(ctx context.Context, key string, topic record.ID) (id string, err error) {
	var index []record.IndexEntry
	for size := int64(64 << 10); ; {
		b, err := c.part(ctx, key, objstore.Range{Length: size})
		if errors.Is(err, record.ErrCorrupt) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		_, _, list, need, err := record.DecodeMeta(b)
		if err != nil || int64(need) > size && int64(len(b)) < size {
			return "", nil
		}
		if need == 0 {
			index = list
			break
		}
		size = int64(need)
	}
	for i := range index {
		e := &index[i]
		if e.Topic != topic || id != "" {
			continue
		}
		c.memory.take(int64(e.Len))
		b, err := c.part(ctx, key, objstore.Range{Offset: int64(e.Pos), Length: int64(e.Len)})
		if err == nil {
			_ = eachDefinition(b, func(key string, s secrets.Status, _ bool) {
				if s.Readable {
					id = key
				}
			})
		}
		c.memory.give(int64(e.Len))
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return "", err
		}
	}
	return id, nil
}

func (c *checker) part(ctx context.Context, key string, r objstore.Range) (b []byte, err error) {
	err = objstore.Retry(ctx, retryPause, func() error {
		o, err := c.get(ctx, key, r)
		if err != nil {
			return err
		}
		defer o.Body.Close()
		b, err = io.ReadAll(io.LimitReader(o.Body, r.Length))
		return corrupt(err)
	})
	return b, err
}

// eachDefinition calls f with each record of batches of definitions.
func eachDefinition(batches []byte, f func(id string, s secrets.Status, deleted bool)) error {
	var r record.Reader
	for r.Reset(batches, 0); r.Next(); {
		rec := r.Record()
		var d struct {
			Deliver json.RawMessage `json:"deliver"`
		}
		if rec.Value != nil && json.Unmarshal(rec.Value, &d) != nil {
			continue
		}
		f(string(rec.Key), secrets.Inspect(d.Deliver), rec.Value == nil)
	}
	return r.Err()
}

// scanViews restores every copy of the trigger database to a temporary file, and reads its
// definitions.
func (c *checker) scanViews(ctx context.Context, st *state.State, exposed func(key, text string)) error {
	dir, err := os.MkdirTemp("", "seb-fsck-") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copies := snapshot.Open(snapshot.Options{
		Store: c.o.Store, Shard: c.o.Shard, View: triggersTopic, Schema: triggerstore.Schema, Logger: slog.New(slog.DiscardHandler),
		Cluster: func() record.ID { return st.Cluster }, On: func(snapshot.LogPosition) bool { return true },
	})
	read := map[string]bool{}
	for {
		path := filepath.Join(dir, fmt.Sprint(len(read)))
		info, ok, err := copies.Restore(ctx, path, true, func(name string) bool { return read[name] })
		if err != nil || !ok {
			return err
		}
		read[info.Name] = true
		if err := scanFile(ctx, path, st.Cluster.String(), func(id string) { exposed(info.Name, "copy of the trigger database, trigger "+id) }); err != nil {
			return fmt.Errorf("%s: %w", info.Name, err)
		}
		c.verified(0, false)
	}
}

// scanFile calls found with the first trigger of a database that has readable secrets.
func scanFile(ctx context.Context, path, cluster string, found func(id string)) (err error) {
	f, err := triggerstore.Open(ctx, triggerstore.Options{Path: path, Cluster: cluster, CacheBytes: 1 << 20, Unsafe: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), triggerstore.Remove(path)) }()
	for no := int64(0); ; {
		g, err := f.NextTrigger(ctx, no)
		if err != nil || g == nil {
			return err
		}
		no = g.No
		var d struct {
			Deliver json.RawMessage `json:"deliver"`
		}
		if json.Unmarshal(g.Def, &d) == nil && secrets.Inspect(d.Deliver).Readable {
			found(g.ID)
			return nil
		}
	}
}

// Definitions returns the status of the secrets of each trigger at a state. Errors: those of the
// store, and record.ErrCorrupt.
func Definitions(ctx context.Context, s objstore.Store, st *state.State) (map[string]secrets.Status, error) {
	c, all := newChecker(Options{Store: s}), map[string]secrets.Status{}
	topic := st.TopicByName(triggersTopic)
	if topic == nil {
		return all, nil
	}
	for i := range topic.Partitions.At(0).Ranges {
		r := &topic.Partitions.At(0).Ranges[i]
		if r.Lost() {
			continue
		}
		b, err := c.part(ctx, st.RangeKey(r), objstore.Range{Offset: int64(r.Pos), Length: int64(r.Len)})
		if err != nil {
			return nil, err
		}
		err = eachDefinition(b, func(id string, s secrets.Status, deleted bool) {
			if all[id] = s; deleted {
				delete(all, id)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
