package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var rabbitKinds = []kind{
	rabbitKind("rabbitmq-memory", "RabbitMQ, for classic queues that keep nothing", "rabbitmq-classic"),
	rabbitKind("rabbitmq-fsync", "RabbitMQ, for quorum queues, whose log is flushed before a confirm", "rabbitmq-quorum"),
}

const (
	rabbitFolder = "rabbitmq-debian"
	rabbitSystem = "/usr/lib/rabbitmq/bin/rabbitmq-server" // path in Debian's package; the script in the PATH switches users
)

var rabbitPackages = []string{
	"rabbitmq-server", "erlang-base", "erlang-asn1", "erlang-crypto", "erlang-public-key", "erlang-mnesia", "erlang-runtime-tools",
	"erlang-ssl", "erlang-eldap", "erlang-ftp", "erlang-tftp", "erlang-inets", "erlang-snmp", "erlang-os-mon", "erlang-parsetools",
	"erlang-syntax-tools", "erlang-tools", "erlang-xmerl",
}

func rabbitKind(name, doc, driver string) kind {
	return kind{
		name: name, doc: doc, timeout: 2 * time.Minute,
		install: func(ctx context.Context, o *Options) error {
			if _, err := exec.LookPath(rabbitSystem); err == nil {
				return nil
			}
			return o.debian(ctx, rabbitFolder, "rabbitmq-server", rabbitPackages)
		},
		start: func(_ context.Context, p *Peer) error { return startRabbit(p, driver) },
		ready: askRabbit,
	}
}

// rabbit contains the paths of the programs and the PATH of the server.
type rabbit struct{ server, epmd, path string }

// findRabbit returns the paths of the programs. Unpacked programs expect Erlang in /usr/lib/erlang,
// so findRabbit writes an erl script with the actual path.
func findRabbit(p *Peer) (rabbit, error) {
	if server, err := exec.LookPath(rabbitSystem); err == nil {
		epmd, err := exec.LookPath("epmd")
		return rabbit{server, epmd, os.Getenv("PATH")}, err
	}
	unpacked := filepath.Join(p.o.Cache, rabbitFolder)
	servers, _ := filepath.Glob(filepath.Join(unpacked, "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
	bins, _ := filepath.Glob(filepath.Join(unpacked, "usr/lib/erlang/erts-*/bin"))
	if len(servers) != 1 || len(bins) != 1 {
		return rabbit{}, fmt.Errorf("%s is not as expected (%d servers, %d runtimes): remove it and try again", unpacked, len(servers), len(bins))
	}
	own := filepath.Join(p.Dir, "bin")
	if err := os.MkdirAll(own, 0o750); err != nil {
		return rabbit{}, err
	}
	script := fmt.Sprintf("#!/bin/sh\nROOTDIR='%s' BINDIR='%s' EMU=beam PROGNAME=erl\nexport ROOTDIR BINDIR EMU PROGNAME\nexec '%s/erlexec' ${1+\"$@\"}\n",
		filepath.Join(unpacked, "usr/lib/erlang"), bins[0], bins[0])
	if err := os.WriteFile(filepath.Join(own, "erl"), []byte(script), 0o700); err != nil {
		return rabbit{}, err
	}
	return rabbit{servers[0], filepath.Join(bins[0], "epmd"), own + ":" + os.Getenv("PATH")}, nil
}

func startRabbit(p *Peer, driver string) error {
	programs, err := findRabbit(p)
	if err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(p.Dir, name) }
	for _, dir := range []string{"mnesia", "log", "home"} {
		if err := os.MkdirAll(in(dir), 0o750); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"enabled_plugins": "[].\n",
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %s\nlog.console = true\nlog.file = false\nvm_memory_high_watermark.relative = 0.5\n"+
			"disk_free_limit.absolute = 1GB\n", loopback(ports[0])),
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	p.address = loopback(ports[0])
	p.Targets = []Target{{Driver: driver, Address: "amqp://guest:guest@" + p.address + "/"}}
	mapper := []string{"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + strconv.Itoa(ports[2])}
	// An epmd that the server starts is a daemon, which Down does not stop.
	if err := p.run("epmd", mapper, programs.epmd); err != nil {
		return err
	}
	env := slices.Concat(mapper, []string{
		"PATH=" + programs.path, "HOME=" + in("home"), "RABBITMQ_NODENAME=bench@localhost", "RABBITMQ_BASE=" + p.Dir,
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"), "RABBITMQ_LOG_BASE=" + in("log"), "RABBITMQ_CONFIG_FILE=" + in("rabbitmq"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"), "RABBITMQ_PID_FILE=" + in("rabbit.pid"),
		"RABBITMQ_CONF_ENV_FILE=" + in("none"), "RABBITMQ_DIST_PORT=" + strconv.Itoa(ports[1]),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	})
	return p.run("rabbitmq", env, programs.server)
}

func askRabbit(_ context.Context, p *Peer) error {
	// RabbitMQ opens its port last, so another process may have taken it: check the product.
	c, err := amqp.DialConfig(p.Targets[0].Address, amqp.Config{Dial: amqp.DefaultDial(askWait)})
	if err != nil {
		return err
	}
	product, _ := c.Properties["product"].(string)
	if err := c.Close(); err != nil {
		return err
	}
	if !strings.Contains(product, "RabbitMQ") {
		return errors.New("what answers is no RabbitMQ")
	}
	return nil
}
