package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/record"
)

// retryTime is the time for which a command retries while the broker is unavailable or busy.
const retryTime = 30 * time.Second

const (
	// chunkBytes bounds one request. Requests are sequential, so that records keep their order.
	chunkBytes   = 4 << 20
	chunkRecords = 50_000
	// lingerTime is the time that a line waits for the next one: enough for a pipe, and not
	// noticeable for a person.
	lingerTime = 5 * time.Millisecond
)

// produceFlags are the flags of `seb produce`.
type produceFlags struct {
	remote       remote
	partition    int32
	keySeparator string
	recordSize   int
	count        int64
	format       string
	atomic       bool
	quiet        bool
}

func newProduce() *cobra.Command {
	var p produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE] | --atomic [FILE]",
		Short: "Send the lines of stdin or of a file as records",
		Long: `Sends every line of stdin, or of FILE, as a record of TOPIC and returns when all are stored. With --record-size and
--count it generates random records instead. Records keep their order.

With --format json a line is an object in the format of seb consume --format json: key or key_base64, value or value_base64
(null makes a tombstone), headers and timestamp. The members offset and partition are ignored.

With --atomic all lines are stored, or none. A line is a record with its topic, a message with its queue, or an event:
  {"topic":"orders","key":"7","value":"..."}
  {"queue":"invoices","value":"...","delay":"1m"}
  {"event":"order_placed","entity_id":"7","data":{"total":120}}
A record may have a partition. The output says where each line is stored.`,
		Example: "  echo hello | seb produce demo\n  seb produce demo events.log\n  seb produce demo --key-separator=: <pairs.txt\n  seb produce demo --record-size 1024 --count 100000\n  seb produce --atomic order.ndjson",
		Args: func(cmd *cobra.Command, args []string) error {
			if p.atomic {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.RangeArgs(1, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args) },
	}
	cmd.ValidArgsFunction = p.remote.topicNames
	p.remote.register(cmd)
	f := cmd.Flags()
	f.Int32VarP(&p.partition, "partition", "p", -1, "partition of all records (default: by key; 0 without a key)")
	atLeast(cmd, "partition", -1)
	f.StringVar(&p.keySeparator, "key-separator", "", "separator between key and value; lines without it have no key")
	f.StringVar(&p.format, "format", "value", "format of a line: value, or json (the objects of seb consume --format json)")
	f.IntVar(&p.recordSize, "record-size", 0, "generate records of N random bytes")
	f.Int64Var(&p.count, "count", 0, "number of records to generate")
	f.BoolVar(&p.atomic, "atomic", false, "store all lines or none; each names its topic or queue")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "print no summary")
	return cmd
}

func (p *produceFlags) run(cmd *cobra.Command, args []string) error {
	if p.atomic {
		return p.runAtomic(cmd, append(args, "-")[0])
	}
	if p.format != "value" && p.format != "json" || p.format == "json" && p.keySeparator != "" {
		return usageError{fmt.Errorf("--format: %q, want value, or json without --key-separator", p.format)}
	}
	src, closeSrc, err := p.source(cmd, args)
	if err != nil {
		return err
	}
	defer closeSrc()
	c, err := p.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	s := sender{client: c, topic: args[0], separator: []byte(p.keySeparator), json: p.format == "json"}
	if w := cmd.ErrOrStderr(); isTerminal(w) {
		s.notice = w
	}
	if p.partition >= 0 {
		s.options.Partition = &p.partition
	}
	start := time.Now()
	err = s.sendAll(cmd.Context(), src)
	if err != nil {
		return fmt.Errorf("after %s stored: %w", counted(s.stored, "record"), err)
	}
	if !p.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s (%d bytes) stored in %s%s in %v\n", counted(s.stored, "record"), s.bytes, args[0], s.where(),
			time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// atomicMax bounds the lines of an atomic request. No broker takes a larger one.
const atomicMax = 30 << 20

// runAtomic sends the lines of a file in one request.
func (p *produceFlags) runAtomic(cmd *cobra.Command, name string) error {
	for _, flag := range []string{"partition", "key-separator", "format", "record-size", "count"} {
		if cmd.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s: not with --atomic, whose lines are objects that name their topic or queue", flag)}
		}
	}
	in, err := openInput(cmd.InOrStdin(), "FILE", name)
	if err != nil {
		return err
	}
	defer in.Close()
	lines, err := io.ReadAll(io.LimitReader(in, atomicMax+1))
	if err != nil {
		return err
	}
	if len(lines) > atomicMax {
		return fmt.Errorf("--atomic: more than %d bytes, the limit of a request", atomicMax)
	}
	c, err := p.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	var s sender
	if w := cmd.ErrOrStderr(); isTerminal(w) {
		s.notice = w
	}
	answered := s.waiting()
	stored, err := c.ProduceAllLines(cmd.Context(), lines)
	answered()
	if err != nil || p.quiet {
		return err
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	for i := range stored {
		if x := &stored[i]; x.Queue != "" {
			fmt.Fprintf(w, "queue %s message %s\n", x.Queue, x.ID)
		} else {
			fmt.Fprintf(w, "topic %s partition %d offset %d\n", x.Topic, x.Partition, x.Offset)
		}
	}
	return w.Flush()
}

// source returns a function that returns the lines one by one, and io.EOF after the last.
func (p *produceFlags) source(cmd *cobra.Command, args []string) (next func() numbered, done func() error, err error) {
	none := func() error { return nil }
	if p.recordSize > 0 || p.count > 0 {
		if p.recordSize <= 0 || p.count <= 0 || len(args) > 1 {
			return nil, nil, usageError{errors.New("--record-size and --count must be used together, without a file")}
		}
		return madeUp(p.recordSize, p.count), none, nil
	}
	name := "-"
	if len(args) > 1 {
		name = args[1]
	}
	in, err := openInput(cmd.InOrStdin(), "FILE", name)
	if err != nil {
		return nil, nil, err
	}
	return p.lines(in), in.Close, nil
}

// lineMax bounds the bytes of a line: the largest record, with room for escapes in JSON.
const lineMax = 64 << 20

// numbered is a line, or the error of reading it.
type numbered struct {
	line   []byte
	number int
	err    error
}

// lines returns a function that returns the lines of r. With --format json they are not blank.
func (p *produceFlags) lines(r io.Reader) func() numbered {
	in := input.NewLines(r, lineMax)
	next := in.Next
	if p.format == "json" {
		next = in.NextValue
	}
	return func() numbered {
		line, err := next()
		return numbered{line, in.Number(), err}
	}
}

func madeUp(size int, count int64) func() numbered {
	rng := rand.NewChaCha8([32]byte{1})
	n := 0
	return func() numbered {
		if int64(n) == count {
			return numbered{err: io.EOF}
		}
		n++
		b := make([]byte, size)
		_, _ = rng.Read(b)
		return numbered{line: b, number: n}
	}
}

// sender collects lines into requests.
type sender struct {
	client    *client.Client
	topic     string
	separator []byte
	json      bool      // lines are objects
	notice    io.Writer // terminal for progress messages; nil: none
	options   client.ProduceOptions

	batch       []record.Record
	numbers     []int // of the lines of batch
	batchBytes  int
	stored      int64
	bytes       int64
	first, last client.ProduceResult // of the first and last request
}

// sendAll sends the lines of next. A line waits for others at most lingerTime.
func (s *sender) sendAll(ctx context.Context, next func() numbered) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := make(chan numbered, 1024)
	go func() {
		// This goroutine is not awaited: a read of a terminal ends only with the process.
		for {
			l := next()
			select {
			case in <- l:
			case <-ctx.Done():
				return
			}
			if l.err != nil {
				return
			}
		}
	}()
	linger := time.NewTimer(0)
	for {
		select {
		case l := <-in:
			if l.err == io.EOF {
				return s.flush(ctx)
			}
			if l.err != nil {
				return errors.Join(l.err, s.flush(ctx))
			}
			if len(s.batch) == 0 {
				linger.Reset(lingerTime)
			}
			full, err := s.add(l)
			if err != nil {
				return errors.Join(err, s.flush(ctx))
			}
			if full {
				if err := s.flush(ctx); err != nil {
					return err
				}
			}
		case <-linger.C:
			if err := s.flush(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// add adds a line and reports whether the request is full.
func (s *sender) add(l numbered) (full bool, err error) {
	r := record.Record{Value: l.line}
	if s.json {
		parsed, fault := encoding.ParseRecord(l.line)
		if fault != nil {
			return false, fmt.Errorf("line %d: %s", l.number, fault.Detail)
		}
		r = *parsed
	}
	if len(s.separator) > 0 {
		if key, value, ok := bytes.Cut(l.line, s.separator); ok {
			r.Key, r.Value = key, value
		}
	}
	s.batch, s.numbers = append(s.batch, r), append(s.numbers, l.number)
	s.batchBytes += len(l.line)
	return s.batchBytes >= chunkBytes || len(s.batch) >= chunkRecords, nil
}

func (s *sender) flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	answered := s.waiting()
	placed, err := s.client.Produce(ctx, s.topic, s.batch, s.options)
	answered()
	if errors.Is(err, client.ErrTooLarge) {
		err = s.tooLarge(ctx, err)
	}
	if err != nil {
		return err
	}
	if s.stored == 0 && len(placed) > 0 {
		s.first = placed[0]
	}
	if len(placed) > 0 {
		s.last = placed[len(placed)-1]
	}
	s.stored += int64(len(s.batch))
	s.bytes += int64(s.batchBytes)
	s.batch, s.numbers, s.batchBytes = s.batch[:0], s.numbers[:0], 0
	return nil
}

// noticeAfter is the time after which a message says that the records are not stored yet.
const noticeAfter = 2 * time.Second

// waiting prints a message at a terminal if there is no answer for a while. The caller must call
// answered.
func (s *sender) waiting() (answered func()) {
	if s.notice == nil {
		return func() {}
	}
	t := time.AfterFunc(noticeAfter, func() {
		fmt.Fprintf(s.notice, "records not stored yet: the broker or its store does not answer; waiting up to %s\n", retryTime)
	})
	return func() { t.Stop() }
}

// tooLarge names the line and the exceeded setting if one record is larger than its topic allows.
func (s *sender) tooLarge(ctx context.Context, err error) error {
	size, at := 0, 0
	for i := range s.batch {
		if n := len(s.batch[i].Key) + len(s.batch[i].Value); n > size {
			size, at = n, i
		}
	}
	line := fmt.Sprintf("line %d is a record of %d bytes", s.numbers[at], size)
	limit := state.MaxBatchBytesDefault
	if t, unknown := s.client.Topic(ctx, s.topic); unknown == nil {
		limit = state.Resolve(t.Settings).MaxBatchBytes
	}
	if size+recordOverhead <= limit {
		return fmt.Errorf("%s, too large for the broker's --memory-limit: %w", line, err)
	}
	return fmt.Errorf("%s; the limit of topic %s is %d: seb topic update %s --setting max-batch-bytes=N", line, s.topic, limit, s.topic)
}

// recordOverhead bounds the size of a batch without the key and the value of its record.
const recordOverhead = 128

// where describes the offsets of the records, if they are all in one partition.
func (s *sender) where() string {
	if s.stored == 0 || s.separator != nil && s.options.Partition == nil && len(s.separator) > 0 {
		return ""
	}
	return fmt.Sprintf(" partition %d at offsets %d to %d", s.first.Partition, s.first.First, s.last.First+s.last.Count-1)
}

// jsonRecord is a line of --format json. Binary data is in the base64 member, and the text member
// is then absent; null means no data.
type jsonRecord struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"` // ms since 1970
	Key         **string     `json:"key,omitempty"`
	KeyBase64   *string      `json:"key_base64,omitempty"`
	Value       **string     `json:"value,omitempty"`
	ValueBase64 *string      `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key         string   `json:"key"`
	Value       **string `json:"value,omitempty"`
	ValueBase64 *string  `json:"value_base64,omitempty"`
}

func writeJSONRecord(w *bufio.Writer, partition int32, r *record.Record) error {
	p := jsonRecord{Partition: partition, Offset: r.Offset, Timestamp: r.Timestamp}
	p.Key, p.KeyBase64 = members(r.Key)
	p.Value, p.ValueBase64 = members(r.Value)
	for _, h := range r.Headers {
		text, b64 := members(h.Value)
		p.Headers = append(p.Headers, jsonHeader{Key: h.Key, Value: text, ValueBase64: b64})
	}
	return writeLine(w, &p)
}

// members returns the JSON members of b: text or null, or base64.
func members(b []byte) (text **string, b64 *string) {
	t, coded := api.TextOrBase64(b)
	if coded != nil {
		return nil, coded
	}
	return &t, nil
}
