package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
)

// retryTime is how long a command goes on when the broker is away or busy.
const retryTime = 30 * time.Second

const (
	// chunkBytes is how much is sent at once; requests follow one another, so that records keep their order.
	chunkBytes   = 4 << 20
	chunkRecords = 50_000
	// lingerTime is how long a line waits for the next: long enough for a pipe, too short for a person to notice.
	lingerTime = 5 * time.Millisecond
)

// produceFlags are the flags of `seb produce`.
type produceFlags struct {
	remote       remote
	partition    int32
	keySeparator string
	recordSize   int
	count        int64
	quiet        bool
}

func newProduce() *cobra.Command {
	var p produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE]",
		Short: "Send the lines of stdin or of a file as records",
		Long: `Sends every line of stdin, or of FILE, as a record of TOPIC and returns when all are stored. With --record-size and
--count it makes up records instead. Records keep their order.`,
		Example: "  echo hello | seb produce demo\n  seb produce demo events.log\n  seb produce demo --key-separator=: <pairs.txt\n  seb produce demo --record-size 1024 --count 100000",
		Args:    cobra.RangeArgs(1, 2),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.run(cmd, args) },
	}
	cmd.ValidArgsFunction = p.remote.topicNames
	p.remote.register(cmd)
	f := cmd.Flags()
	f.Int32VarP(&p.partition, "partition", "p", -1, "partition of all records (default: by key, without one 0)")
	f.StringVar(&p.keySeparator, "key-separator", "", "what ends the key at the start of each line; a line without it has no key")
	f.IntVar(&p.recordSize, "record-size", 0, "make up records of so many random bytes")
	f.Int64Var(&p.count, "count", 0, "how many records to make up")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "print no summary")
	return cmd
}

func (p *produceFlags) run(cmd *cobra.Command, args []string) error {
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
	s := sender{client: c, topic: args[0], separator: []byte(p.keySeparator)}
	if p.partition >= 0 {
		s.options.Partition = &p.partition
	}
	start := time.Now()
	err = s.sendAll(cmd.Context(), src)
	if err != nil {
		return fmt.Errorf("after %d records that are stored: %w", s.stored, err)
	}
	if !p.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d records (%d bytes) stored in %s%s in %v\n", s.stored, s.bytes, args[0], s.where(),
			time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// source gives the lines one by one; io.EOF after the last.
func (p *produceFlags) source(cmd *cobra.Command, args []string) (next func() ([]byte, error), done func() error, err error) {
	none := func() error { return nil }
	if p.recordSize > 0 || p.count > 0 {
		if p.recordSize <= 0 || p.count <= 0 || len(args) > 1 {
			return nil, nil, usageError{errors.New("--record-size and --count go together, without a file")}
		}
		return madeUp(p.recordSize, p.count), none, nil
	}
	in := cmd.InOrStdin()
	if len(args) > 1 && args[1] != "-" {
		f, err := os.Open(args[1])
		if err != nil {
			return nil, nil, err
		}
		return lines(f), f.Close, nil
	}
	return lines(in), none, nil
}

// lines cuts r at newlines; the last line needs none.
func lines(r io.Reader) func() ([]byte, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	return func() ([]byte, error) {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) > 0 {
			return line, nil
		}
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
}

func madeUp(size int, count int64) func() ([]byte, error) {
	rng := rand.NewChaCha8([32]byte{1})
	return func() ([]byte, error) {
		if count == 0 {
			return nil, io.EOF
		}
		count--
		b := make([]byte, size)
		_, _ = rng.Read(b)
		return b, nil
	}
}

// sender collects lines to requests.
type sender struct {
	client    *client.Client
	topic     string
	separator []byte
	options   client.ProduceOptions

	batch       []record.Record
	batchBytes  int
	stored      int64
	bytes       int64
	first, last client.Placed // of the first and last request
}

type lineOrError struct {
	line []byte
	err  error
}

// sendAll sends what next gives. A line waits for others at most lingerTime.
func (s *sender) sendAll(ctx context.Context, next func() ([]byte, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := make(chan lineOrError, 1024)
	go func() {
		// Not waited for: a read of a terminal ends with the process only.
		for {
			line, err := next()
			select {
			case in <- lineOrError{line, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
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
			if s.add(l.line) {
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

// add takes a line and says whether the request is full.
func (s *sender) add(line []byte) (full bool) {
	r := record.Record{Value: line}
	if len(s.separator) > 0 {
		if key, value, ok := bytes.Cut(line, s.separator); ok {
			r.Key, r.Value = key, value
		}
	}
	s.batch = append(s.batch, r)
	s.batchBytes += len(line)
	return s.batchBytes >= chunkBytes || len(s.batch) >= chunkRecords
}

func (s *sender) flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	placed, err := s.client.Produce(ctx, s.topic, s.batch, s.options)
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
	s.batch, s.batchBytes = s.batch[:0], 0
	return nil
}

// where says at which offsets the records are, if they are all in one partition.
func (s *sender) where() string {
	if s.stored == 0 || s.separator != nil && s.options.Partition == nil && len(s.separator) > 0 {
		return ""
	}
	return fmt.Sprintf(" partition %d at offsets %d to %d", s.first.Partition, s.first.First, s.last.First+s.last.Count-1)
}
