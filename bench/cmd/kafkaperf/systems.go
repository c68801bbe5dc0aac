package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/test/testenv"
)

// broker is a running broker.
type broker struct {
	address  string
	pid      int
	settings string // of clients
	stop     func() error
}

// system is a broker with a durability.
type system struct {
	name, title string
	start       func(ctx context.Context, o *options, dir string) (*broker, error)
}

const (
	kafkaName = "kafka"
	sebName   = "seb"
)

var systems = []system{
	{kafkaName, "Kafka 4.3.1, no fsync", kafka("kafka-memory")},
	{sebName, "Seb, disk, fsync", seb("")},
	{"kafka-fsync", "Kafka 4.3.1, flush for each message", kafka("kafka-fsync")},
	{"seb-memory", "Seb, memory", seb("mem:")},
}

func names() (list []string) {
	for _, s := range systems {
		list = append(list, s.name)
	}
	return list
}

func find(name string) (*system, error) {
	for i := range systems {
		if systems[i].name == name {
			return &systems[i], nil
		}
	}
	return nil, fmt.Errorf("unknown system %q; systems: %s", name, strings.Join(names(), ", "))
}

// peerLine matches the output of seb-bench for a running peer.
var peerLine = regexp.MustCompile(`address=(\S+) pid=(\d+)`)

// kafka starts a kind of Kafka with seb-bench.
func kafka(kind string) func(context.Context, *options, string) (*broker, error) {
	return func(ctx context.Context, o *options, dir string) (*broker, error) {
		down := func() error {
			out, err := exec.Command(o.Bench, "peers", "down", kind, "--data", dir).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
			}
			return nil
		}
		out, err := exec.CommandContext(ctx, o.Bench, "peers", "up", kind, "--data", dir).CombinedOutput()
		m := peerLine.FindSubmatch(out)
		if err != nil || m == nil {
			return nil, errors.Join(fmt.Errorf("start of Kafka: %w: %s", err, bytes.TrimSpace(out)), down())
		}
		pid, err := strconv.Atoi(string(m[2]))
		if err != nil {
			return nil, errors.Join(err, down())
		}
		b := &broker{address: string(m[1]), pid: pid, settings: filepath.Join(dir, "client.properties"), stop: down}
		if err := os.WriteFile(b.settings, nil, 0o600); err != nil {
			return nil, errors.Join(err, down())
		}
		return b, nil
	}
}

// seb starts `seb serve`; bucket "" is a folder.
func seb(bucket string) func(context.Context, *options, string) (*broker, error) {
	return func(_ context.Context, o *options, dir string) (*broker, error) {
		const key = "speed-key-0123456789"
		store := bucket
		if store == "" {
			store = filepath.Join(dir, "bucket")
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		b := &broker{address: l.Addr().String(), settings: filepath.Join(dir, "client.properties")}
		text := `security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="speed" password="` + key + "\";\n"
		if err := errors.Join(l.Close(), os.WriteFile(b.settings, []byte(text), 0o600)); err != nil {
			return nil, err
		}
		data := filepath.Join(dir, "data")
		run, err := testenv.Serve(o.Seb, []string{"SEB_API_KEY=" + key}, append([]string{
			"--bucket", store, "--data-dir", data, "--http-port", "0", "--kafka-listen", b.address,
		}, strings.Fields(o.SebFlags)...)...)
		if err != nil {
			return nil, err
		}
		b.stop = func() error {
			if code := run.Stop(); code != 0 {
				return fmt.Errorf("seb ended with code %d: %s", code, run.Log())
			}
			return nil
		}
		if _, err := run.Address(data); err != nil {
			return nil, errors.Join(err, b.stop())
		}
		b.pid = run.Pid()
		return b, nil
	}
}
