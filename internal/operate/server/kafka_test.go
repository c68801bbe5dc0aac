package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

func kafkaClient(t *testing.T, s *server.Server, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c := must.Get(kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.KafkaAddress()), kgo.SASL(plain.Auth{User: "u", Pass: s.APIKey()}.AsMechanism()),
		kgo.AllowAutoTopicCreation(),
	}, opts...)...))(t)
	t.Cleanup(c.Close)
	return c
}

// TestKafka: a server serves Kafka and HTTP clients, on disk and in memory, and stops while a
// client waits for records.
func TestKafka(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{"mem:", "file:" + t.TempDir()} {
		cfg := settings(t, bucket)
		cfg.Kafka.Listen = "127.0.0.1:0"
		s := start(t, cfg)
		must.NoError(t, produce(t, connect(t, s)))
		must.NoError(t, kafkaClient(t, s).ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("w")}).FirstErr())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got []string
		c := kafkaClient(t, s, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(time.Minute))
		for len(got) < 2 {
			f := c.PollFetches(ctx)
			must.NoError(t, f.Err())
			f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		n := 0
		for r, err := range connect(t, s).Records(t.Context(), "t", client.ReadOptions{}) {
			if err != nil || string(r.Value) != got[n] {
				t.Errorf("%d: %q %v, Kafka gave %q", n, r.Value, err, got[n])
			}
			n++
		}
		check.NoError(t, s.Close(t.Context()))
		check.Error(t, check.Err(net.Dial("tcp", s.KafkaAddress())), "the listener exists")
		c.Close()
	}
}

// TestDefaultPartitions: a topic that a record creates has the configured number of partitions,
// over HTTP and Kafka; the events topic has one.
func TestDefaultPartitions(t *testing.T) {
	cfg := settings(t, "mem:")
	cfg.Kafka.Listen, cfg.DefaultPartitions = "127.0.0.1:0", 3
	s := start(t, cfg)
	c := connect(t, s)
	must.NoError(t, produce(t, c))
	must.NoError(t, kafkaClient(t, s).ProduceSync(t.Context(), &kgo.Record{Topic: "u", Value: []byte("w")}).FirstErr())
	must.Get(c.ProduceEvent(t.Context(), client.Event{Name: "e", EntityID: "x"}, client.EventOptions{}))(t)
	for name, want := range map[string]int{"t": 3, "u": 3, "events": 1} {
		topic, err := c.Topic(t.Context(), name)
		if err != nil || len(topic.Partitions) != want {
			t.Errorf("%+v %v, want %d partitions", topic, err, want)
		}
	}
}

// TestKafkaCrossesHTTP: records written over HTTP are read over Kafka and vice versa, from memory,
// disk and S3: keys, headers, timestamps, null and empty values, every codec. Records with a key go
// to the same partitions.
func TestKafkaCrossesHTTP(t *testing.T) {
	buckets := map[string]func(t *testing.T) string{
		"memory": func(*testing.T) string { return "mem:" },
		"disk":   func(t *testing.T) string { return "file:" + t.TempDir() },
		"s3": func(t *testing.T) string {
			t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
			t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
			return "s3://" + testenv.Bucket + "/kafka?endpoint=" + testenv.S3ForTest(t).Endpoint + "&region=us-east-1&path-style=true"
		},
	}
	for name, bucket := range buckets {
		t.Run(name, func(t *testing.T) {
			cfg := settings(t, bucket(t))
			cfg.Kafka.Listen = "127.0.0.1:0"
			s := start(t, cfg)
			crossing(t, s)
		})
	}
}

// sample returns records of every kind; odd ones have no key.
func sample() []record.Record {
	list := make([]record.Record, 60)
	for i := range list {
		r := &list[i]
		r.Timestamp, r.Value = 1_700_000_000_000+int64(i), fmt.Appendf(nil, "value %d", i)
		if i%2 == 0 {
			r.Key = fmt.Appendf(nil, "key %d", i)
		}
		switch i % 5 {
		case 1:
			r.Value = nil
		case 2:
			r.Value = []byte{}
		case 3:
			r.Headers = []record.Header{{Key: "h", Value: []byte{0, 1, byte(i)}}, {Key: "h"}, {Key: "e", Value: []byte{}}}
		}
	}
	return list
}

func crossing(t *testing.T, s *server.Server) {
	http := connect(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const partitions = 4
	for _, topic := range []string{"over-http", "over-kafka"} {
		must.Get(http.CreateTopic(ctx, topic, client.TopicSpec{Partitions: partitions}))(t)
	}
	want := sample()
	must.Get(http.Produce(ctx, "over-http", want, client.ProduceOptions{}))(t)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		var list []*kgo.Record
		for _, r := range want[i*len(want)/len(codecs) : (i+1)*len(want)/len(codecs)] {
			k := &kgo.Record{Topic: "over-kafka", Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
			for _, h := range r.Headers {
				k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			list = append(list, k)
		}
		must.NoError(t, kafkaClient(t, s, kgo.ProducerBatchCompression(codec)).ProduceSync(ctx, list...).FirstErr())
	}
	partitionOf := map[string]int32{} // per key
	for _, topic := range []string{"over-http", "over-kafka"} {
		byHTTP := overHTTP(t, http, topic, partitions)
		byKafka := map[int64]record.Record{}
		c := kafkaClient(t, s, kgo.ConsumeTopics(topic))
		for len(byKafka) < len(want) {
			f := c.PollFetches(ctx)
			must.NoError(t, f.Err())
			f.EachRecord(func(r *kgo.Record) {
				c := record.Record{Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					c.Headers = append(c.Headers, record.Header{Key: h.Key, Value: h.Value})
				}
				byKafka[c.Timestamp] = c
				if at, known := partitionOf[string(r.Key)]; r.Key != nil && known && at != r.Partition {
					t.Errorf("key %s is in %d and %d", r.Key, at, r.Partition)
				}
				partitionOf[string(r.Key)] = r.Partition
			})
		}
		for _, w := range want {
			for over, got := range map[string]record.Record{"HTTP": byHTTP[w.Timestamp], "Kafka": byKafka[w.Timestamp]} {
				if !reflect.DeepEqual(got, w) {
					t.Errorf("%s, read over %s: %#v, want %#v", topic, over, got, w)
				}
			}
		}
		c.Close()
	}
}

// overHTTP reads a topic's records, by their timestamps.
func overHTTP(t *testing.T, http *client.Client, topic string, partitions int32) map[int64]record.Record {
	t.Helper()
	byTime := map[int64]record.Record{}
	for p := range partitions {
		for r, err := range http.Records(t.Context(), topic, client.ReadOptions{Partition: p}) {
			must.NoError(t, err)
			c := record.Record{Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
			for _, h := range r.Headers {
				c.Headers = append(c.Headers, record.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)})
			}
			byTime[r.Timestamp] = c
		}
	}
	return byTime
}

// TestKafkaAddress: a configured address is required, the default address is retried, and ""
// disables Kafka.
func TestKafkaAddress(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := settings(t, "mem:")
	c.Kafka = config.Kafka{Listen: l.Addr().String()}
	if _, err := server.Start(t.Context(), c, quiet); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--kafka-listen") {
		t.Errorf("taken: %v", err)
	}
	server.SetKafkaRetry(10 * time.Millisecond)
	c.Kafka.Optional = true
	s := start(t, c)
	var banner strings.Builder
	s.Banner(&banner, "seb")
	if s.KafkaAddress() != "" || !strings.Contains(banner.String(), c.Kafka.Listen+" is in use") {
		t.Errorf("listens at %q: %s", s.KafkaAddress(), banner.String())
	}
	must.NoError(t, l.Close())
	sebtest.Eventually(t, "Kafka listens on the address once it is free", func() bool { return s.KafkaAddress() == c.Kafka.Listen })
	d := must.Get(net.Dial("tcp", c.Kafka.Listen))(t)
	_ = d.Close()
	c = settings(t, "mem:")
	c.Kafka = config.Kafka{}
	check.Equalf(t, start(t, c).KafkaAddress(), "", "listens at")
}
