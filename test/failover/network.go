package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
)

// The network of a campaign with namespaces. NAT is a relay, because a kernel without nftables
// cannot translate addresses: its namespace has the addresses of the others, and the connections
// that it accepts there continue from hubAddress.
//
//	clients, store: hubAddress, storeAddress ── bridge ─┬─ seb0: 10.77.0.10
//	                                                    ├─ seb1: 10.77.0.11
//	                                                    └─ …
//	behind NAT:     10.78.0.1, 10.77.0.10 … ── 10.78.0.11 (seb1)
const (
	bridge       = "seb"
	nat          = "nat"
	hubAddress   = "10.77.0.1"
	storeAddress = "10.77.0.2"
	natGateway   = "10.78.0.1"
	httpPort     = "51313"
	kafkaPort    = "9092"
)

func netns(n int) string   { return fmt.Sprint("seb", n) }
func port0(n int) string   { return fmt.Sprint("port", n) }
func address(n int) string { return fmt.Sprint("10.77.0.", 10+n) }
func inner(n int) string   { return fmt.Sprint("10.78.0.", 10+n) }

// network is the bridge and the namespaces of an isolated process.
type network struct {
	wg     sync.WaitGroup
	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[io.Closer]bool // listeners and connections of relays
}

// ip runs commands of ip(8), one in each line.
func ip(ctx context.Context, lines string) error {
	c := exec.CommandContext(ctx, "ip", "-batch", "-")
	c.Stdin = strings.NewReader(lines)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w\n%s%s", err, out, lines)
	}
	return nil
}

// newNetwork makes the namespaces of some brokers. The one with the number behind, if any, is behind
// NAT.
func newNetwork(ctx context.Context, brokers, behind int) (*network, error) {
	if err := privateRun(); err != nil {
		return nil, err
	}
	lines := "link set lo up\nlink add " + bridge + " type bridge\nlink set " + bridge + " up\n" +
		fmt.Sprintf("addr add %s/24 dev %s\naddr add %s/24 dev %[2]s\n", hubAddress, bridge, storeAddress)
	if err := ip(ctx, lines); err != nil {
		return nil, err
	}
	w := &network{open: map[io.Closer]bool{}}
	for n := range brokers {
		lines := fmt.Sprintf("netns add %s\nlink add %s type veth peer name eth0 netns %[1]s\nlink set %[2]s master %s up\n", netns(n), port0(n), bridge)
		if n == behind {
			lines = fmt.Sprintf("netns add %s\nnetns add %s\nlink add eth0 netns %[2]s type veth peer name eth0 netns %[1]s\n", netns(n), nat)
		}
		if err := ip(ctx, lines); err != nil {
			return nil, err
		}
		own, gateway := address(n), hubAddress
		if n == behind {
			own, gateway = inner(n), natGateway
			if err := w.translate(ctx, n, brokers); err != nil {
				return nil, err
			}
		}
		if err := inside(ctx, netns(n), fmt.Sprintf("link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\nroute add default via %s\n", own, gateway)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// inside runs commands of ip(8) in a namespace.
func inside(ctx context.Context, name, lines string) error {
	c := exec.CommandContext(ctx, "ip", "-n", name, "-batch", "-")
	c.Stdin = strings.NewReader(lines)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -n %s: %w\n%s%s", name, err, out, lines)
	}
	return nil
}

// translate puts a broker behind NAT, and forwards its ports to it.
func (w *network) translate(ctx context.Context, behind, brokers int) error {
	lines := fmt.Sprintf("link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n", natGateway)
	for n := range brokers {
		lines += "addr add " + address(n) + "/32 dev lo\n"
	}
	faults := []error{
		inside(ctx, nat, lines+"addr add "+storeAddress+"/32 dev lo\n"),
		ip(ctx, "addr add "+address(behind)+"/24 dev "+bridge+"\n"),
	}
	for n := range brokers {
		for _, p := range []string{httpPort, kafkaPort} {
			at := net.JoinHostPort(address(n), p)
			if n == behind {
				faults = append(faults, w.relay("", at, nat, net.JoinHostPort(inner(n), p)))
			} else {
				faults = append(faults, w.relay(nat, at, "", at))
			}
		}
	}
	return errors.Join(faults...)
}

// expose makes the loopback listeners of a broker reachable for clients.
func (w *network) expose(n int) error {
	var faults []error
	for _, p := range []string{httpPort, kafkaPort} {
		faults = append(faults, w.relay(netns(n), net.JoinHostPort(address(n), p), netns(n), net.JoinHostPort("127.0.0.1", p)))
	}
	return errors.Join(faults...)
}

// at calls f in a namespace; "" is that of this process.
func at(name string, f func() error) error {
	if name == "" {
		return f()
	}
	return within(name, f)
}

// relay forwards connections to an address in one namespace to an address in another.
func (w *network) relay(from, listen, to, target string) error {
	var l net.Listener
	err := at(from, func() (err error) { l, err = net.Listen("tcp", listen); return err })
	if err != nil {
		return fmt.Errorf("relay %s: %w", listen, err)
	}
	w.keep(l)
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			w.wg.Go(func() {
				var up net.Conn
				err := at(to, func() (err error) { up, err = net.DialTimeout("tcp", target, askTime); return err })
				if err != nil {
					_ = c.Close()
					return
				}
				w.pass(c, up)
			})
		}
	})
	return nil
}

// keep notes what close ends.
func (w *network) keep(c io.Closer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = c.Close()
	}
	w.open[c] = true
}

// pass copies both directions until one ends.
func (w *network) pass(a, b net.Conn) {
	w.keep(a)
	w.keep(b)
	end := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range []net.Conn{a, b} {
			_ = c.Close()
			delete(w.open, c)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(a, b); end() })
	both.Go(func() { _, _ = io.Copy(b, a); end() })
	both.Wait()
}

// close ends the relays. The kernel removes the rest.
func (w *network) close() {
	w.mu.Lock()
	w.closed = true
	for c := range w.open { //tidy:unordered each is closed
		_ = c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// plug sets the link of a broker up or down, as a cable does.
func plug(ctx context.Context, s *slot, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return ip(ctx, "link set "+port0(s.n)+" "+state+"\n")
}

// separate cuts some brokers from each other, without a word to them: frames between isolated ports
// of a bridge are dropped. Clients, the store and the other brokers reach them.
func separate(ctx context.Context, apart bool, slots ...*slot) error {
	state := "off"
	if apart {
		state = "on"
	}
	lines := ""
	for _, s := range slots {
		lines += "link set " + port0(s.n) + " type bridge_slave isolated " + state + "\n"
	}
	return ip(ctx, lines)
}

// blackhole drops what a broker sends to an address, in this direction only.
func blackhole(ctx context.Context, s *slot, to string, drop bool) error {
	verb := "del"
	if drop {
		verb = "add"
	}
	return inside(ctx, netns(s.n), "route "+verb+" blackhole "+to+"/32\n")
}
