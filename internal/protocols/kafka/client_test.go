package kafka_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// codecs are the compression codecs of the protocol.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// content returns what a producer says of a record, and where the record is.
func content(r *kgo.Record) kgo.Record {
	return kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// TestEveryCodec: franz-go reads the records that it wrote, with keys, headers, timestamps, nulls
// and empty values.
func TestEveryCodec(t *testing.T) {
	s := memory(t)
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			p := client(t, s, kgo.ProducerBatchCompression(codec))
			var sent []*kgo.Record
			for i := range sebtest.Runs(500, 100) {
				r := &kgo.Record{
					Topic: "codec-" + name, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "value %d of some length, %s", i, name),
					Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}, {Key: "", Value: nil}},
					Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
				}
				switch i % 4 {
				case 1:
					r.Key, r.Headers = nil, nil
				case 2:
					r.Value = nil
				case 3:
					r.Value = []byte{}
				}
				sent = append(sent, r)
			}
			for _, r := range p.ProduceSync(t.Context(), sent...) {
				must.NoError(t, r.Err)
			}
			got := consume(t, client(t, s, kgo.ConsumeTopics("codec-"+name)), len(sent))
			for i, r := range got {
				if r.Offset != int64(i) || sent[i].Offset != r.Offset {
					t.Fatalf("record %d has offset %d, the producer got %d", i, r.Offset, sent[i].Offset)
				}
				if got, want := content(r), content(sent[i]); !reflect.DeepEqual(got, want) {
					t.Fatalf("record %d: %#v, want %#v", i, got, want)
				}
			}
		})
	}
}
