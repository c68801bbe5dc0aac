package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/interop"
	"github.com/sebbroker/seb/test/testenv"
)

// apiKey is the key of every Seb.
const apiKey = "key-of-the-migration"

// process is a program that can be killed and started again with the same arguments.
type process struct {
	run  *testenv.Broker
	log  *os.File
	path string
	env  []string
	args []string
}

// java returns the arguments of a program of Java with a small heap. It has less priority than other work.
func java(path, class string, args ...string) []string {
	return append([]string{
		"-n", "15", "java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path,
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showDateTime=true", class,
	}, args...)
}

// start starts the program. Its output is appended to name in dir.
func (p *process) start(dir, name string) (err error) {
	if p.log == nil {
		if p.log, err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	log := p.log
	p.run, err = testenv.StartProgram(p.path, p.env, func(line string) { _, _ = fmt.Fprintln(log, line) }, p.args...)
	return err
}

// cluster is a running Seb or Kafka.
type cluster struct {
	name    string // also of the folder
	dir     string
	address string
	process *process
	user    string // of SASL; "": none
}

// options are those of a client.
func (c *cluster) options(more ...kgo.Opt) []kgo.Opt {
	list := []kgo.Opt{kgo.SeedBrokers(c.address), kgo.MetadataMinAge(100 * time.Millisecond)}
	if c.user != "" {
		list = append(list, kgo.SASL(plain.Auth{User: c.user, Pass: apiKey}.AsMechanism()))
	}
	return append(list, more...)
}

// admin calls f with a client.
func (c *cluster) admin(f func(*kadm.Client) error) error {
	client, err := kgo.NewClient(c.options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(kadm.NewClient(client))
}

// ready waits until the cluster answers.
func (c *cluster) ready(ctx context.Context) error {
	return await(ctx, 2*time.Minute, c.name+" answers", func() (bool, error) {
		select {
		case <-c.process.run.Done():
			return false, fmt.Errorf("%s ended by itself:\n%s", c.name, c.process.run.Log())
		default:
		}
		return c.admin(func(a *kadm.Client) error {
			once, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := a.BrokerMetadata(once)
			return err
		}) == nil, nil
	})
}

// kill sends SIGKILL and starts the cluster again at the same address.
func (c *cluster) kill(ctx context.Context) error {
	c.process.run.Kill()
	if err := c.process.start(c.dir, "log"); err != nil {
		return err
	}
	return c.ready(ctx)
}

// written returns the sum of the end offsets of topics.
func (c *cluster) written(ctx context.Context, topics ...string) (n int64, err error) {
	err = c.admin(func(a *kadm.Client) error {
		ends, err := a.ListEndOffsets(ctx, topics...)
		ends.Each(func(o kadm.ListedOffset) { n += max(0, o.Offset) })
		return err
	})
	return n, err
}

// startSeb starts a Seb with an empty bucket in a new folder.
func (m *move) startSeb(ctx context.Context, name string) (*cluster, error) {
	c := &cluster{name: name, dir: filepath.Join(m.dir, name), user: "seb"}
	var err error
	if c.address, err = testenv.FreeAddress(); err != nil {
		return nil, err
	}
	c.process = &process{path: m.program("seb"), env: []string{"SEB_API_KEY=" + apiKey}, args: []string{
		"serve", "--bucket", filepath.Join(c.dir, "bucket"), "--data-dir", filepath.Join(c.dir, "data"),
		"--http-port", "0", "--kafka-listen", c.address,
	}}
	if err := errors.Join(os.Mkdir(c.dir, 0o700), c.process.start(c.dir, "log")); err != nil {
		return nil, err
	}
	m.running = append(m.running, c.process)
	return c, c.ready(ctx)
}

// kafkaConfig is a Kafka that compacts within seconds.
const kafkaConfig = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.segment.bytes=1048576
log.cleaner.backoff.ms=2000
log.cleaner.min.cleanable.ratio=0.1
`

// startKafka starts a Kafka with one broker in a new folder.
func (m *move) startKafka(ctx context.Context) (*cluster, error) {
	c := &cluster{name: "kafka", dir: filepath.Join(m.dir, "kafka")}
	controller, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	if c.address, err = testenv.FreeAddress(); err != nil {
		return nil, err
	}
	config := filepath.Join(c.dir, "server.properties")
	text := fmt.Sprintf(kafkaConfig, c.address, controller, filepath.Join(c.dir, "data"))
	if err := errors.Join(os.Mkdir(c.dir, 0o700), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] = 'k'             // a leading dash would be parsed as a flag
	if _, err := testenv.Command(ctx, c.dir, "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", m.tools,
		"kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", config); err != nil {
		return nil, err
	}
	c.process = &process{path: "nice", args: java(m.tools, "kafka.Kafka", config)}
	if err := c.process.start(c.dir, "log"); err != nil {
		return nil, err
	}
	m.running = append(m.running, c.process)
	return c, c.ready(ctx)
}

// startMirror starts MirrorMaker with properties of the guide.
func (m *move) startMirror(name, properties string) (*process, error) {
	file := filepath.Join(m.dir, name+".properties")
	if err := os.WriteFile(file, []byte(properties), 0o600); err != nil {
		return nil, err
	}
	p := &process{path: m.program("connect-mirror-maker.sh"), args: []string{file}}
	m.running = append(m.running, p)
	return p, p.start(m.dir, name+".log")
}

// install builds Seb, downloads Kafka and Connect, and puts all programs of the guide into a folder.
func (m *move) install(ctx context.Context) (err error) {
	if m.tools, err = interop.JavaTools(ctx); err != nil {
		return err
	}
	if m.connect, err = interop.JavaConnect(ctx); err != nil {
		return err
	}
	bin := filepath.Join(m.dir, "bin")
	scripts := map[string][]string{
		"connect-mirror-maker.sh":  java(m.connect, "org.apache.kafka.connect.mirror.MirrorMaker"),
		"kafka-consumer-groups.sh": java(m.tools, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	for name, args := range scripts { //tidy:unordered each writes a file of its own
		text := "#!/bin/sh\nexec nice '" + strings.Join(args, "' '") + "' \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	build := campaign.Step{Dir: "migrate", Args: []string{"go", "build", "-o", m.program("seb-migrate"), "./cmd/seb-migrate"}}
	if _, err = testenv.Build(bin); err == nil {
		err = build.Run(ctx)
	}
	return errors.Join(err, os.WriteFile(filepath.Join(m.dir, "api-key"), []byte(apiKey+"\n"), 0o600))
}

// await repeats done until it returns true.
func await(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", strings.TrimSpace(what), limit, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
