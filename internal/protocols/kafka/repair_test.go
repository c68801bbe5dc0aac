package kafka_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// rskafkaBatch is a batch of rskafka 0.6.0 with two records, 900 and 1,800 µs after 1700000000000.
// The base and largest timestamp and the time between the records are truncated to milliseconds, so
// the largest is 1 ms above both.
const rskafkaBatch = "00000000000000000000006b00000000022eb9e7320000000000010000018bcfe568000000018bcfe56801ffffffffffffffffffffffffffff" +
	"00000002380000000a6b657920300e76616c75652030020866726f6d0872757374380000020a6b657920310e76616c75652031020866726f6d0872757374"

// TestProduceRepairsTheLargestTimestamp: a batch with a wrong largest timestamp is stored with the
// right one and a new checksum. All else is stored as sent, and a repeated batch of a producer is
// still recognized.
func TestProduceRepairsTheLargestTimestamp(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	const maxTimestamp, baseTime = 35, 1700000000000
	sent := must.Get(hex.DecodeString(rskafkaBatch))(t)
	largest := func(millis int64, producer *record.Producer) []byte {
		b := bytes.Clone(sent)
		if producer != nil {
			record.StampProducer(b, *producer)
		}
		binary.BigEndian.PutUint64(b[maxTimestamp:], uint64(millis))
		crc(b)
		return b
	}
	known := &record.Producer{ID: 5}
	for i, x := range []struct {
		name      string
		given     []byte
		offset    int64
		corrected []byte
	}{
		{"rskafka's", sent, 0, largest(baseTime, nil)},
		{"far above", largest(1<<60, nil), 2, largest(baseTime, nil)},
		{"the first record of several, the last one being older", largest(baseTime-1, nil), 4, largest(baseTime, nil)},
		{"left out", largest(-1, nil), 6, largest(baseTime, nil)},
		{"of an idempotent producer", largest(baseTime+1, known), 8, largest(baseTime, known)},
		{"of an idempotent producer, again", largest(baseTime+1, known), 8, nil},
	} {
		r := produceRequest(ref, -1, bytes.Clone(x.given))
		if p := produced(c.ask(r, 9)); p.ErrorCode != 0 || p.BaseOffset != x.offset {
			t.Fatalf("batch %d, %s: answered with %d at %d, want offset %d", i, x.name, p.ErrorCode, p.BaseOffset, x.offset)
		}
		if x.corrected == nil {
			continue
		}
		got := fetched(c.ask(fetchRequest(ref, x.offset), 12)).RecordBatches
		record.Patch(x.corrected, x.offset, int32(s.b.Epoch()))
		if !bytes.Equal(got, x.corrected) {
			t.Errorf("batch %d, %s: stored as\n%x, want\n%x", i, x.name, got, x.corrected)
		}
	}
}
