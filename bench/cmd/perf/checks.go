package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// size checks the size of the stripped program.
func (p *place) size(stripped string) (Check, error) {
	info, err := os.Stat(stripped)
	if err != nil {
		return Check{}, err
	}
	mib := float64(info.Size()) / (1 << 20)
	return Check{"program, stripped", "≤ 28 MiB", fmt.Sprintf("%.1f MiB", mib), mib <= 28}, nil
}

// start measures n starts on an empty disk bucket, including the store check. Each start has its
// own folders.
func (p *place) start(n int) (Check, error) {
	var took []time.Duration
	for range n {
		err := p.within(func(_, disk string) error {
			b, err := p.serve("file:"+filepath.Join(disk, "bucket"), filepath.Join(disk, "data"))
			if err != nil {
				return err
			}
			took = append(took, b.started)
			return b.stop()
		})
		if err != nil {
			return Check{}, err
		}
	}
	s := report.SpreadBy(took, func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 })
	return Check{"ready after a start on an empty disk bucket", "≤ 50 ms", s.Format("%.0f ms"), s.Middle <= 50}, nil
}

// openMost is the limit of the start time on a bucket with history.
const openMost = 2 * time.Second

// historyObjects returns the number of objects of history.
func historyObjects(scale float64) int { return max(10, int(10_000*scale)) }

// history compares a bucket with many objects of 1,000 records to an empty bucket. It alternates
// between both, n times, and compares CPU time per record of appends and of reads near the end. It
// also measures the start time on the full bucket. It calls done after each object and each run.
func (p *place) history(ctx context.Context, scale float64, n int, done func()) (list []Check, err error) {
	objects := historyObjects(scale)
	err = p.within(func(tmpfs, disk string) error {
		full, data := "file:"+filepath.Join(tmpfs, "full")+"?fsync=false", filepath.Join(disk, "data")
		if err := p.fill(ctx, full, data, objects, 1000, done); err != nil {
			return err
		}
		var took []time.Duration
		for range n {
			b, err := p.serve(full, data, "--merge-interval", "24h")
			if err != nil {
				return err
			}
			took = append(took, b.started)
			if err := b.stop(); err != nil {
				return err
			}
		}
		open := report.SpreadBy(took, func(d time.Duration) float64 { return float64(d.Milliseconds()) })
		list = append(list, Check{
			fmt.Sprintf("open of a bucket with %d records in %d objects", objects*1000, objects), fmt.Sprintf("≤ %v", openMost),
			open.Format("%.0f ms"), open.Middle <= float64(openMost.Milliseconds()),
		})
		for _, c := range []struct {
			name string
			load []string
		}{
			{"appends", []string{"benchmark", "-w", "16", "--batches", scaled(1024, scale)}},
			{"reads near the end", []string{
				"benchmark-read", "-w", "16", "--batches", scaled(512, scale), "--requests", scaled(16384, scale), "--skew", "recent",
			}},
		} {
			check, err := p.compare(ctx, c.name, c.load, full, n, done)
			if err != nil {
				return err
			}
			list = append(list, check)
		}
		return nil
	})
	return list, err
}

// compare runs a load on an empty bucket and on a full bucket, n times in turn.
func (p *place) compare(ctx context.Context, what string, load []string, full string, n int, done func()) (Check, error) {
	var rate, cpu []float64
	for range n {
		empty, err := p.measure(ctx, slices.Concat(load, []string{"--bucket", "file:{tmpfs}/empty?fsync=false"})...)
		if err != nil {
			return Check{}, err
		}
		done()
		with, err := p.measure(ctx, slices.Concat(load, []string{"--bucket", full})...)
		if err != nil {
			return Check{}, err
		}
		done()
		rate = append(rate, with.RecordsPerSecond/empty.RecordsPerSecond)
		cpu = append(cpu, with.CPU/empty.CPU)
	}
	c, r := report.SpreadOf(cpu), report.SpreadOf(rate)
	return Check{
		what + " with that history, of those on an empty bucket", "CPU ≤ 1.10",
		fmt.Sprintf("CPU %s, rate %s", c.Format("%.2f"), r.Format("%.2f")), c.Middle <= 1.1,
	}, nil
}

// fill writes objects into a bucket in sequence, each with the given number of 100-byte records. It calls done
// after each object.
func (p *place) fill(ctx context.Context, bucket, data string, objects, records int, done func()) error {
	b, err := p.serve(bucket, data, "--batch-wait-time", "0s", "--merge-interval", "24h")
	if err != nil {
		return err
	}
	defer b.Kill()
	if _, err := b.client.PutTopic(ctx, "history", client.TopicSpec{Partitions: 1}); err != nil {
		return err
	}
	list := make([]record.Record, records)
	for i := range list {
		list[i].Value = []byte(strings.Repeat(string(rune('a'+i%26)), 100))
	}
	batch, _, err := record.Append(nil, list, record.EncodeOptions{})
	if err != nil {
		return err
	}
	for range objects {
		if _, err := b.client.ProduceBatches(ctx, "history", batch, client.ProduceOptions{}); err != nil {
			return err
		}
		done()
	}
	return b.stop()
}
