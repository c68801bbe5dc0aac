package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

//go:embed two.sh
var twoScript string

// twoMachines boots two machines with systemd, each in a network namespace of its own, and follows
// docs/guide/cluster.md there. Then the first machine dies, and the second broker leads.
func (c *checks) twoMachines() (err error) {
	network, err := c.network(2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.remove()) }()
	s3, err := c.s3()
	if err != nil {
		return err
	}
	defer s3.Stop()
	relay, err := forward(network.gateway()+":0", strings.TrimPrefix(s3.Endpoint, "http://"))
	if err != nil {
		return err
	}
	defer relay.Close()
	settings, err := c.guideBlock("cluster.md", "deb-settings")
	if err != nil {
		return err
	}
	commands, err := c.guideBlock("cluster.md", "deb-cluster")
	if err != nil {
		return err
	}
	bucket := strings.Replace(s3.Spec("two"), s3.Endpoint, "http://"+relay.Addr().String(), 1)
	settings = strings.ReplaceAll(settings, "s3://my-bucket/seb?region=eu-central-1", bucket)
	settings += "\nAWS_ACCESS_KEY_ID=" + testenv.AccessKey + "\nAWS_SECRET_ACCESS_KEY=" + testenv.SecretKey + "\n"
	var machines [2]machine
	for i := range machines {
		name := fmt.Sprintf("db%d", i+1)
		machines[i], err = c.twoMachine(name, map[string]string{
			"/srv/settings": strings.ReplaceAll(settings, "ADVERTISE=db1.", "ADVERTISE="+name+"."),
			"/srv/commands": commands, "/etc/hosts": network.hosts(),
		})
		if err != nil {
			return err
		}
	}
	return c.runTwo(network, machines)
}

// twoMachine makes a machine that runs the script at its boot.
func (c *checks) twoMachine(name string, files map[string]string) (machine, error) {
	tools, err := c.tools()
	if err != nil {
		return machine{}, err
	}
	m := machine{c.ctx, filepath.Join(c.work, name)}
	if _, err := c.output(c.work, "cp", "-a", tools.dir, m.dir); err != nil {
		return machine{}, err
	}
	files["/srv/role"], files["/srv/check.sh"], files["/etc/systemd/system/check.service"] = name, twoScript, systemdUnit
	for path, text := range files {
		if err := os.WriteFile(m.path(path), []byte(text), 0o600); err != nil {
			return machine{}, err
		}
	}
	return m, os.Chmod(m.path("/etc/hosts"), 0o644) //nolint:gosec // the broker's user reads it
}

// runTwo boots the machines and does what their scripts wait for.
func (c *checks) runTwo(n *network, machines [2]machine) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Minute)
	defer cancel()
	power, off := context.WithCancel(ctx)
	defer off()
	ended := make(chan error, len(machines))
	for i, ctx := range []context.Context{power, ctx} {
		group.Go(func() {
			out, err := c.boot(ctx, machines[i], "--network-namespace-path="+n.path(i))
			if err != nil {
				log, logErr := os.ReadFile(machines[i].path("/srv/check.log"))
				err = fmt.Errorf("machine %d: %w\n%s\n%s", i+1, errors.Join(err, logErr), out, log)
			}
			if i == 1 || power.Err() == nil {
				ended <- err
			}
		})
	}
	for _, step := range []struct {
		m    machine
		file string
		then func() error
	}{
		{machines[0], "/srv/started", func() error {
			_, err := c.output(c.work, "cp", machines[0].path(keyFile), machines[1].path("/srv/api-key"))
			return err
		}},
		{machines[1], "/srv/kill", func() error { off(); return nil }},
	} {
		for {
			if _, err := os.Stat(step.m.path(step.file)); err == nil {
				break
			}
			select {
			case err := <-ended:
				return errors.Join(errors.New("a machine ended early"), err)
			case <-time.After(50 * time.Millisecond):
			}
		}
		if err := step.then(); err != nil {
			return err
		}
	}
	if err := <-ended; err != nil {
		return err
	}
	c.note("the steps of the guide; the second broker led after the first machine died, with all records")
	return nil
}

// forward accepts connections at an address and connects each to target.
func forward(address, target string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l, nil
}

// network is a bridge with network namespaces.
type network struct {
	c     *checks
	name  string
	count int
}

func (c *checks) network(count int) (*network, error) {
	n := &network{c, fmt.Sprintf("seb%d", os.Getpid()), count}
	lines := []string{"ip link add $n type bridge", "ip addr add " + n.gateway() + "/24 dev $n", "ip link set $n up"}
	for i := range count {
		lines = append(lines, strings.NewReplacer("$m", fmt.Sprintf("$n-%d", i), "$a", n.address(i)).Replace(
			"ip netns add $m; ip link add $m type veth peer name eth0 netns $m; ip link set $m master $n; ip link set $m up; "+
				"ip -n $m addr add $a/24 dev eth0; ip -n $m link set eth0 up; ip -n $m link set lo up"))
	}
	_, err := c.output(c.work, "sh", "-ec", strings.ReplaceAll(strings.Join(lines, "; "), "$n", n.name))
	if err != nil {
		err = errors.Join(err, n.remove())
	}
	return n, err
}

func (n *network) gateway() string      { return "10.213.7.1" }
func (n *network) address(i int) string { return fmt.Sprintf("10.213.7.%d", 10+i) }
func (n *network) path(i int) string    { return fmt.Sprintf("/run/netns/%s-%d", n.name, i) }

// hosts returns a file /etc/hosts that names the machines as the guide does.
func (n *network) hosts() string {
	text := "127.0.0.1 localhost\n"
	for i := range n.count {
		text += fmt.Sprintf("%s db%d.internal\n", n.address(i), i+1)
	}
	return text
}

func (n *network) remove() error {
	line := "ip link delete " + n.name
	for i := range n.count {
		line += "; ip netns delete " + filepath.Base(n.path(i))
	}
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("remove the network: %w: %s", err, out)
	}
	return err
}
