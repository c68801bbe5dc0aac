package main

import (
	"os"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestProduced(t *testing.T) {
	const out = `300 records sent, 60.0 records/sec (0.06 MB/sec), 13.0 ms avg latency, 91.0 ms max latency.
1000 records sent, 2000.5 records/sec (1.95 MB/sec), 38.67 ms avg latency, 94.00 ms max latency, 34 ms 50th, 37 ms 95th, 91 ms 99th, 93 ms 99.9th.

Metric Name                                                                                 Value
producer-metrics:batch-size-avg:{client-id=perf-producer-client}                            : 15555.923
producer-metrics:request-latency-avg:{client-id=perf-producer-client}                       : 4.144
producer-node-metrics:request-latency-avg:{client-id=perf-producer-client, node-id=node--1} : NaN
`
	if p, err := produced(out, 1000); err != nil || p.Rate != 2000.5 || p.Wait != 91 || p.Batch != 15555.923 || p.Request != 4.144 {
		t.Errorf("%+v, %v", p, err)
	}
	check.Error(t, check.Err(produced(out, 1001)), "too few sent records were accepted")
	check.Error(t, check.Err(produced("", 1)), "empty output was accepted")
}

func TestSettings(t *testing.T) {
	check.EqualSlicesf(t, properties(" a=1  b=2"), []string{"--command-property", "a=1", "b=2"}, "a second flag makes the tool ignore the first")
	const settings = "acks=all batch.size=131072"
	check.NoError(t, heeded(settings, 128492))
	check.NoError(t, heeded("acks=all", 15555))
	for _, batch := range []float64{15555, 0, 140000} {
		check.Error(t, heeded(settings, batch), "batches of %.0f bytes were accepted instead of 128 KiB", batch)
	}
}

func TestConsumed(t *testing.T) {
	const out = `start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-22 09:37:35:845, 2026-11-22 09:37:52:825, 488.2813, 28.7563, 500000, 29446.4075, 3347, 7633, 63.9698, 65505.0439
`
	if p, err := consumed(out, 500000); err != nil || p.Rate != 65505.0439 || p.Join != 3.347 {
		t.Errorf("%+v, %v", p, err)
	}
	check.Error(t, check.Err(consumed(out, 500001)), "too few read records were accepted")
	check.Error(t, check.Err(consumed("WARNING: Exiting before consuming the expected number of records", 1)), "a warning was accepted")
}

func TestChildrenCPU(t *testing.T) {
	before := childrenCPU()
	_, err := testenv.Command(t.Context(), ".", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if must.NoError(t, err); childrenCPU() <= before {
		t.Errorf("a child process that counted to 100,000 took no CPU time")
	}
}

func TestMemory(t *testing.T) {
	now, most, anonymous, err := memory(os.Getpid())
	if err != nil || now <= 0 || most < now || anonymous > now {
		t.Errorf("%d now, %d at most, %d without files, %v", now, most, anonymous, err)
	}
}

// turnOf returns a turn with a peak of 100 MB above its memory.
func turnOf(write, writeCPU, read, readCPU float64, rss int64) sample {
	return sample{Produce: path{Rate: write, CPU: writeCPU, Tool: 2 * writeCPU}, Consume: path{Rate: read, CPU: readCPU}, RSS: rss, Peak: rss + 100e6}
}

func TestReport(t *testing.T) {
	r := report{Options: &options{Version: "abc", Rounds: 2, Properties: "acks=all"}}
	turns := func(name string, samples ...sample) {
		for i := range samples {
			r.add(name, &samples[i])
		}
	}
	turns(kafkaName, turnOf(1e5, 10, 2e5, 4, 500e6), turnOf(2e5, 10, 2e5, 4, 500e6))
	turns(sebName, turnOf(2e5, 4, 4e5, 3, 100e6), turnOf(2e5, 4, 4e5, 3, 100e6))
	var b strings.Builder
	must.NoError(t, r.write(&b))
	flat := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"| Kafka 4.3.1, no fsync | 150 k (100 k to 200 k) | 10.00 | 20.00 | 0 | 0.0 | 200 k | 4.00 | 477 | 572 |",
		"| records/s written | 1.50 (1.00 to 2.00) | ≥ 1.00 | met |",
		"| broker's CPU for a record written | 0.40 | ≤ 0.50 | met |",
		"| broker's CPU for a record read | 0.75 | ≤ 0.50 | **missed** |",
		"| resident memory of Seb, MB | 100 | ≤ 128 | met |",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("want %s in:\n%s", want, b.String())
		}
	}
}
