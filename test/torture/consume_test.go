package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/history"
)

// saw adds a record to the result of a read.
func (u *user) saw(is *history.Event, offset int64, value []byte) {
	id, seq, scratch, err := history.ParseValue(value, u.scratch)
	u.scratch = scratch
	if err != nil {
		is.Bad = fmt.Sprintf("offset %d: %v: %.100q", offset, err, value)
		return
	}
	is.Got = history.AddRun(is.Got, offset, id, seq)
}

// read reads from random offsets in several encodings until ctx ends.
func (u *user) read(ctx context.Context) {
	for ctx.Err() == nil {
		part := u.partition()
		failed := false
		switch u.rng.IntN(6) {
		case 0, 1:
			failed = u.fetch(ctx, part, u.from(part), u.rng.IntN(64<<10))
		case 2:
			failed = u.fetch(ctx, part, u.from(part), 0)
		case 3, 4:
			failed = u.readJSON(ctx, part, u.from(part))
		case 5:
			failed = u.describe(ctx, part)
		}
		u.rest(ctx, failed)
	}
}

// from returns an offset to read from: often the end, where reads wait.
func (u *user) from(part int32) int64 {
	start, end := u.r.rec.Ends(part)
	switch u.rng.IntN(4) {
	case 0:
		return end
	case 1:
		return start
	}
	return start + u.rng.Int64N(end-start+1)
}

// fetch reads with the Go client.
func (u *user) fetch(ctx context.Context, part int32, from int64, maxBytes int) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Read, Client: u.id, Part: part, From: from, Form: "go"})
	call, cancel := u.timeout(ctx)
	defer cancel()
	is := history.Event{Is: history.Failed}
	f, err := u.api.Fetch(call, topic, client.FetchOptions{Partition: part, Offset: from, MaxBytes: maxBytes, Wait: time.Duration(u.rng.IntN(300)) * time.Millisecond})
	if err != nil {
		e := u.notedError(err)
		is.Code, is.Start = e.Code, max(e.Start, 0)
		u.r.rec.Return(op, is)
		return true
	}
	is.Is, is.Epoch, is.End = history.OK, f.Epoch, max(f.NextOffset, 0)
	for rec, err := range f.All() {
		if err != nil {
			is.Cut = true
			u.cutOff(err)
			break
		}
		u.saw(&is, rec.Offset, rec.Value)
	}
	_ = f.Close()
	u.r.rec.Return(op, is)
	return is.Cut
}

// cutOff checks why an answer was interrupted: that may happen, wrong bytes may not.
func (u *user) cutOff(err error) {
	if errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrInvalid) {
		u.r.fault("client %d: an answer is damaged: %v", u.id, err)
	}
	u.r.counts.add("answers cut off", 1)
}

// readJSON reads over HTTP in a JSON encoding.
func (u *user) readJSON(ctx context.Context, part int32, from int64) (failed bool) {
	kind := pick(u.rng, api.JSON, api.NDJSON, api.EventStream)
	op := u.r.rec.Invoke(history.Event{Do: history.Read, Client: u.id, Part: part, From: from, Form: kind})
	q := url.Values{
		"topic-name": {topic}, "partition": {fmt.Sprint(part)}, "offset": {fmt.Sprint(from)},
		"max-records": {fmt.Sprint(1 + u.rng.IntN(200))}, "timeout": {fmt.Sprintf("%dms", u.rng.IntN(300))},
	}
	if u.rng.IntN(4) == 0 {
		q.Set("read", "latest")
	}
	call, cancel := u.timeout(ctx)
	defer cancel()
	a := u.ask(call, http.MethodGet, "/records", q, map[string]string{"Accept": kind + ", " + api.ProblemJSON}, nil)
	u.noted(a.problem.Code, a.problem.Detail)
	is := history.Event{Is: history.Failed, Code: string(a.problem.Code)}
	if a.problem.StartOffset != nil {
		is.Start, is.Epoch = *a.problem.StartOffset, a.epoch()
	}
	if a.status == http.StatusOK {
		is = history.Event{Is: history.OK, Epoch: a.epoch(), Cut: a.err != nil}
		if kind == api.EventStream { // continues after the end at its beginning
			u.events(&is, a.body)
		} else {
			is.End, _ = strconv.ParseInt(a.header.Get(api.HeaderNextOffset), 10, 64)
			u.records(&is, kind, a.body)
		}
	}
	u.r.rec.Return(op, is)
	return a.status == 0 || a.err != nil
}

// records decodes the records of an answer; none of an interrupted one.
func (u *user) records(is *history.Event, kind string, body []byte) {
	if is.Cut {
		return
	}
	var list []api.Record
	if kind == api.NDJSON {
		for d := json.NewDecoder(bytes.NewReader(body)); ; {
			var one api.Record
			if err := d.Decode(&one); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				is.Bad = err.Error()
				return
			}
			list = append(list, one)
		}
	} else if err := json.Unmarshal(body, &list); err != nil {
		is.Bad = fmt.Sprintf("%v in %.200q", err, body)
		return
	}
	for i := range list {
		if list[i].Value == nil {
			is.Bad = fmt.Sprintf("offset %d has no text for a value", list[i].Offset)
			return
		}
		u.saw(is, list[i].Offset, []byte(*list[i].Value))
	}
}

// events decodes the records of an event stream, up to an interruption.
func (u *user) events(is *history.Event, body []byte) {
	for _, event := range strings.Split(string(body), "\n\n") {
		fields := map[string]string{}
		for line := range strings.SplitSeq(event, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				fields[name] = value
			}
		}
		if fields["event"] == "error" {
			var p api.Problem
			_ = json.Unmarshal([]byte(fields["data"]), &p)
			u.noted(p.Code, p.Detail)
			is.Cut = true
			return
		}
		var one api.Record
		if fields["id"] == "" || json.Unmarshal([]byte(fields["data"]), &one) != nil {
			continue // a comment, or the end
		}
		if one.Value == nil || fields["id"] != fmt.Sprint(one.Offset) {
			is.Bad = fmt.Sprintf("event %.200q", event)
			return
		}
		u.saw(is, one.Offset, []byte(*one.Value))
	}
}

// describe asks for the bounds of a partition.
func (u *user) describe(ctx context.Context, part int32) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Read, Client: u.id, Part: part, From: history.None, Form: "describe"})
	call, cancel := u.timeout(ctx)
	defer cancel()
	call, by := withEpoch(call)
	t, err := u.api.Topic(call, topic)
	if err != nil {
		u.r.rec.Return(op, history.Event{Is: history.Failed, Code: u.notedError(err).Code})
		return true
	}
	if len(t.Partitions) != u.r.p.parts {
		u.r.fault("client %d: the topic has %d partitions of %d", u.id, len(t.Partitions), u.r.p.parts)
		return true
	}
	p := t.Partitions[part]
	u.r.rec.Return(op, history.Event{Is: history.OK, Epoch: by.epoch.Load(), Start: p.Start, End: p.Next})
	return false
}

// A stream is recorded in chunks of this many records or this time.
const (
	chunkRecords = 64
	chunkTime    = 100 * time.Millisecond
)

// untrimmed lists the partitions without trims.
func (r *run) untrimmed() (parts []int32) {
	for part := range int32(r.p.parts) {
		if !r.p.trims || int(part) < r.p.parts-1 {
			parts = append(parts, part)
		}
	}
	return parts
}

// follow repeatedly reads a partition as a stream, from its start or from its last position, until
// ctx ends.
func (u *user) follow(ctx context.Context) {
	part := pick(u.rng, u.r.untrimmed()...)
	from := client.Earliest
	for n := 0; ctx.Err() == nil; n++ {
		session := fmt.Sprintf("follow-%d-%d", u.id, n)
		life, cancel := context.WithTimeout(ctx, span(u.rng, 300*time.Millisecond, 10*time.Second))
		from = u.stream(life, part, from, session)
		cancel()
		if u.rng.IntN(4) == 0 {
			from = client.Earliest
		}
		u.rest(ctx, true)
	}
}

// stream is one session; it returns the start of the next one.
func (u *user) stream(ctx context.Context, part int32, from int64, session string) int64 {
	is := history.Event{Is: history.OK}
	begun := time.Now()
	flush := func() {
		if len(is.Got) > 0 || is.Bad != "" {
			op := u.r.rec.Invoke(history.Event{Do: history.Read, Client: u.id, Part: part, From: history.None, Session: session, Form: "stream"})
			u.r.rec.Return(op, is)
		}
		is = history.Event{Is: history.OK}
		begun = time.Now()
	}
	defer flush()
	count := 0
	for rec, err := range u.api.Records(ctx, topic, client.ReadOptions{Partition: part, Offset: from, Follow: true, MaxBytes: 1 + u.rng.IntN(64<<10)}) {
		if err != nil {
			if u.notedError(err).Code == "" && ctx.Err() == nil {
				u.cutOff(err)
			}
			return from
		}
		u.saw(&is, rec.Offset, rec.Value)
		from = rec.Offset + 1
		if count++; count >= chunkRecords || time.Since(begun) > chunkTime {
			flush()
			count = 0
		}
	}
	return from
}

// consume reads for a group with the Go client's consumers, one after the other, until ctx ends and
// then to the end: no record may be skipped.
func (u *user) consume(ctx context.Context) {
	group := fmt.Sprintf("group-%d", u.id)
	for n := 0; ctx.Err() == nil; n++ {
		life, cancel := context.WithTimeout(ctx, span(u.rng, 200*time.Millisecond, 8*time.Second))
		session := fmt.Sprintf("%s-%d", group, n)
		ended := u.session(life, group, session, client.ConsumerOptions{
			Follow: true, CommitEvery: span(u.rng, 5*time.Millisecond, 500*time.Millisecond), MaxBytes: 1 + u.rng.IntN(64<<10),
			Partitions: u.r.untrimmed(),
		})
		cancel()
		u.r.rec.Note("sessions", "%s ended: %v", session, ended)
		u.rest(ctx, true)
	}
}

// session is one consumer's session. It returns why the session ended. Some end without a last
// commit, like killed consumers.
func (u *user) session(ctx context.Context, group, session string, o client.ConsumerOptions) error {
	begin, cancel := u.timeout(ctx)
	k, err := u.api.Consumer(begin, group, topic, o)
	cancel()
	if err != nil {
		u.notedError(err)
		return fmt.Errorf("begin: %w", err)
	}
	got := map[int32]*history.Event{}
	flush := func() {
		for part, is := range got {
			op := u.r.rec.Invoke(history.Event{
				Do: history.Read, Client: u.id, Part: part, From: history.None, Session: session, Group: group, Form: "consumer",
			})
			u.r.rec.Return(op, *is)
		}
		clear(got)
	}
	var ended error
	for count, begun := 0, time.Now(); ; count++ {
		m, err := k.Next(ctx)
		if err != nil {
			ended = err
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
				u.notedError(err)
			}
			break
		}
		if got[m.Partition] == nil {
			got[m.Partition] = &history.Event{Is: history.OK}
		}
		u.saw(got[m.Partition], m.Offset, m.Value)
		if count >= chunkRecords || time.Since(begun) > chunkTime {
			flush() // before they are finished
			count, begun = 0, time.Now()
		}
	}
	flush()
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if u.rng.IntN(3) == 0 && !u.r.calm.Load() {
		cancel() // no further commits
	}
	last, cancelLast := u.timeout(end)
	if err := k.Close(last); err != nil {
		u.notedError(err)
		ended = fmt.Errorf("%w; close: %w", ended, err)
	}
	cancelLast()
	cancel()
	return ended
}

// registers commits and fetches offsets of a shared group until ctx ends.
func (u *user) registers(ctx context.Context) {
	const group = "shared"
	for ctx.Err() == nil {
		part := u.partition()
		var failed bool
		switch u.rng.IntN(5) {
		case 0, 1:
			failed = u.fetchOffset(ctx, group, part)
		case 2, 3:
			failed = u.commitOffset(ctx, group, part, nil)
		case 4:
			failed = u.commitOffset(ctx, group, part, new(u.committed[part]))
		}
		u.rest(ctx, failed)
	}
}

func (u *user) commitOffset(ctx context.Context, group string, part int32, want *int64) (failed bool) {
	to := u.rng.Int64N(1000)
	op := u.r.rec.Invoke(history.Event{Do: history.Commit, Client: u.id, Part: part, Group: group, To: to, Want: want, Again: want == nil})
	call, cancel := u.timeout(context.WithoutCancel(ctx))
	defer cancel()
	call, by := withEpoch(call)
	err := u.api.CommitOffsets(call, group, client.OffsetCommit{Topic: topic, Partition: part, Offset: to, Metadata: fmt.Sprint(op), Expected: want})
	e := u.notedError(err)
	// The Go client repeats unconditional commits, so one may take effect twice, with another
	// client's commit in between.
	is := history.Event{Is: history.OK, Epoch: by.epoch.Load(), Code: e.Code, Again: want == nil && by.again()}
	switch {
	case err == nil:
		u.committed[part] = to
	case errors.Is(err, client.ErrOffsetMismatch):
		is.Is, is.Code, is.At = history.Rejected, history.CodeMismatch, e.Committed
		u.committed[part] = e.Committed
	case errors.Is(err, client.ErrRejected):
		is.Is = history.Rejected
	default:
		is.Is = history.Unknown
	}
	u.r.rec.Return(op, is)
	return err != nil
}

func (u *user) fetchOffset(ctx context.Context, group string, part int32) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Fetch, Client: u.id, Part: part, Group: group})
	call, cancel := u.timeout(ctx)
	defer cancel()
	call, by := withEpoch(call)
	list, err := u.api.Offsets(call, group, topic)
	if err != nil {
		u.r.rec.Return(op, history.Event{Is: history.Failed, Code: u.notedError(err).Code})
		return true
	}
	is := history.Event{Is: history.OK, Epoch: by.epoch.Load(), At: history.None}
	for _, o := range list {
		if o.Partition == part {
			is.At = o.Offset
			if is.By, err = strconv.ParseInt(o.Metadata, 10, 64); err != nil {
				u.r.fault("client %d: group %s has metadata %q", u.id, group, o.Metadata)
			}
		}
	}
	u.committed[part] = is.At
	u.r.rec.Return(op, is)
	return false
}
