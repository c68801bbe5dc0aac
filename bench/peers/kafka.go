package peers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaVersion is the newest version with all jars in Maven Central.
const kafkaVersion = "4.3.1"

const kafkaFolder = "kafka-" + kafkaVersion

var kafkaKinds = []kind{
	kafkaKind("kafka-memory", "Kafka as it comes: acknowledged from the page cache, flushed when the kernel does", ""),
	kafkaKind("kafka-fsync", "Kafka that flushes for every message", "log.flush.interval.messages=1\n"),
}

func kafkaKind(name, doc, more string) kind {
	return kind{
		name: name, doc: doc, timeout: 3 * time.Minute,
		install: installKafka,
		start:   func(ctx context.Context, p *Peer) error { return startKafka(ctx, p, more) },
		ready:   askKafka,
	}
}

const kafkaJars = `<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + kafkaVersion + `</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>`

func installKafka(ctx context.Context, o *Options) error {
	return o.maven(ctx, kafkaFolder, "Kafka "+kafkaVersion, kafkaJars)
}

const kafkaConfig = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
message.max.bytes=8388608
replica.fetch.max.bytes=8388608
`

func startKafka(ctx context.Context, p *Peer, more string) error {
	if err := needs("Kafka", map[string]string{"java": javaFrom}); err != nil {
		return err
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	p.address = loopback(ports[0])
	p.Targets = []Target{{Driver: "kafka", Address: p.address}}
	config := filepath.Join(p.Dir, "server.properties")
	text := fmt.Sprintf(kafkaConfig, p.address, loopback(ports[1]), filepath.Join(p.Dir, "data")) + more
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	jars := filepath.Join(p.o.Cache, kafkaFolder, "lib", "*")
	// The same format as the output of kafka-storage random-uuid, without starting a JVM for
	// seconds.
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x7f           // a leading dash would be parsed as a flag
	cluster := strings.TrimLeft(base64.RawURLEncoding.EncodeToString(id[:]), "-")
	if _, err := command(ctx, p.Dir, nil, "java", "-Xmx256m", "-cp", jars, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", config); err != nil {
		return err
	}
	return p.run("kafka", nil, "java", "-Xms256m", "-Xmx512m", "-cp", jars, "kafka.Kafka", config)
}

func askKafka(ctx context.Context, p *Peer) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(p.address), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Ping(ctx)
}
