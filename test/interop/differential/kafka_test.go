package differential

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// kafkaVersion is the version of the compared Kafka.
const kafkaVersion = "4.3.1"

const kafkaPom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>differential</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + kafkaVersion + `</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
`

// copyGoal is the Maven plugin that downloads the dependencies of a pom.
const copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

// kafkaJars downloads Kafka into the cache folder, once.
func kafkaJars(ctx context.Context) (string, error) {
	for program, from := range map[string]string{"java": "a runtime of Java 17 or later (Debian: openjdk-17-jre-headless)", "mvn": "Maven (Debian: maven)"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("no Kafka without the program %s: %s", program, from)
		}
	}
	dir, err := testenv.Install("interop/kafka-"+kafkaVersion, "Kafka "+kafkaVersion+" from Maven Central", func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(kafkaPom), 0o600); err != nil {
			return err
		}
		_, err := testenv.Command(ctx, dir, "mvn", "-q", "-B", copyGoal, "-DoutputDirectory="+filepath.Join(dir, "lib"))
		return err
	})
	return filepath.Join(dir, "lib", "*"), err
}

// kafkaConfig configures a broker that is its own controller. Its rules bind every user except that of
// the tests and the broker itself. Nothing in it depends on time: no retention, no compaction. Its first rebalances do not wait for more members, as in the Seb that
// it is compared with.
const kafkaConfig = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=SASL_PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=SASL_PLAINTEXT://%[1]s
inter.broker.listener.name=SASL_PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="%[4]s" password="%[5]s" user_%[4]s="%[5]s";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:%[4]s;User:ANONYMOUS
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.transaction.abort.timed.out.transaction.cleanup.interval.ms=200
num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
num.partitions=1
auto.create.topics.enable=true
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.roll.ms=9000000000000000000
log.cleaner.backoff.ms=3600000
log.segment.delete.delay.ms=0
`

// peer is a running Kafka.
type peer struct {
	address string
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// startKafka starts a Kafka with its data in dir and waits until it answers.
func startKafka(ctx context.Context, dir string) (*peer, error) {
	jars, err := kafkaJars(ctx)
	if err != nil {
		return nil, err
	}
	var free [2]string
	for i := range free {
		if free[i], err = testenv.FreeAddress(); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(kafkaConfig, free[0], free[1], filepath.Join(dir, "data"), user, apiKey)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] = 'k'             // a leading dash would be parsed as a flag
	cluster := base64.RawURLEncoding.EncodeToString(id[:])
	if _, err := testenv.Command(ctx, dir, "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", config); err != nil {
		return nil, err
	}
	k := &peer{address: free[0], log: filepath.Join(dir, "kafka.log"), ended: make(chan struct{})}
	log, err := os.Create(k.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	k.command = exec.Command("java", "-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.Kafka", config)
	k.command.Dir, k.command.Stdout, k.command.Stderr = dir, log, log
	k.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the process ends with the thread that started it
		defer close(k.ended)
		err := k.command.Start()
		if started <- err; err == nil {
			_ = k.command.Wait() // only its end matters
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if err := k.ready(ctx); err != nil {
		return nil, errors.Join(err, k.stop())
	}
	return k, nil
}

// ready waits until Kafka answers an authenticated client.
func (k *peer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		c, err := dial(k.address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-k.ended:
			return fmt.Errorf("the Kafka ended: %s", k.tail())
		case <-ctx.Done():
			return fmt.Errorf("Kafka does not answer: %w: %s", err, k.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (k *peer) tail() string {
	text, err := os.ReadFile(k.log)
	if err != nil {
		return err.Error()
	}
	const most = 3000
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// stop stops it.
func (k *peer) stop() error {
	_ = k.command.Process.Kill() // it may have ended
	select {
	case <-k.ended:
		return nil
	case <-time.After(answerWait):
		return errors.New("Kafka does not end")
	}
}
