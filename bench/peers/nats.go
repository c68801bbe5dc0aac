package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
)

// natsVersion is the version of the server to build. Debian's version is years older.
const natsVersion = "v2.15.2"

const natsFolder = "nats-" + natsVersion

var natsKinds = []kind{
	natsKind("nats-memory", "NATS: core, and JetStream with streams in memory", "2m", "memory"),
	natsKind("nats-fsync", "NATS whose JetStream flushes files for every message", "always", "file"),
}

func natsKind(name, doc, sync, storage string) kind {
	return kind{
		name: name, doc: doc, timeout: 20 * time.Second,
		install: installNATS,
		start:   func(_ context.Context, p *Peer) error { return startNATS(p, sync, storage) },
		ready:   askNATS,
	}
}

func installNATS(ctx context.Context, o *Options) error {
	return o.once(natsFolder, "building nats-server "+natsVersion+" with Go", func(dir string) error {
		if err := needs("nats-server", map[string]string{"go": "https://go.dev/dl"}); err != nil {
			return err
		}
		_, err := command(ctx, dir, []string{"GOBIN=" + dir, "GOFLAGS=", "GOWORK=off"}, "go", "install", "github.com/nats-io/nats-server/v2@"+natsVersion)
		return err
	})
}

// natsProgram returns the path of the server in the cache.
func natsProgram(o *Options) (string, error) {
	return exec.LookPath(filepath.Join(o.Cache, natsFolder, "nats-server"))
}

func startNATS(p *Peer, sync, storage string) error {
	program, err := natsProgram(p.o)
	if err != nil {
		return err
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	config := filepath.Join(p.Dir, "nats.conf")
	text := fmt.Sprintf(`listen: "%s"
http: "%s"
max_payload: 8MB
max_pending: 1GB
jetstream { store_dir: %q, max_memory_store: 8GB, max_file_store: 100GB, sync_interval: %s
  limits { batch { max_inflight_per_stream: 1000 } } }
`, loopback(ports[0]), loopback(ports[1]), filepath.Join(p.Dir, "store"), sync)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	p.address = loopback(ports[0])
	url, monitor := "nats://"+p.address, "http://"+loopback(ports[1])
	stream := Target{Driver: "nats-jetstream", Address: url, Options: map[string]string{"storage": storage, "monitor": monitor}}
	if storage == "memory" { // NATS core stores no messages, so it has no fsync variant
		p.Targets = append(p.Targets, Target{Driver: "nats", Address: url})
	}
	p.Targets = append(p.Targets, stream)
	return p.run("nats", nil, program, "-c", config)
}

func askNATS(ctx context.Context, p *Peer) error {
	c, err := nats.Connect("nats://"+p.address, nats.NoReconnect())
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := c.JetStream()
	if err != nil {
		return err
	}
	_, err = js.AccountInfo(nats.Context(ctx))
	return err
}
