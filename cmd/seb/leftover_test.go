package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestTheAddressOfAKilledBroker: a command does not talk to the broker that has taken the address of the one
// of its data directory, also if its key is accepted there.
func TestTheAddressOfAKilledBroker(t *testing.T) {
	p := newWorkDir(t)
	p.env = []string{"SEB_API_KEY=a-key-of-both-brokers"}
	killed := p.serve("--bucket", "./first", "--kafka-listen", "")
	address := killed.address()
	p.mustWith("1\n", "produce", "demo")
	killed.kill()
	must.Get(os.Stat(filepath.Join(p.dir, "seb-data", "broker.json")))(t)
	_, port := must.Get2(net.SplitHostPort(address[len("http://"):]))(t)
	kafka := fmt.Sprintf("127.0.0.1:%d", testenv.PortForTest(t))
	other := p.serve("--bucket", "./second", "--data-dir", "other", "--kafka-listen", kafka, "--http-port", port)
	check.Equalf(t, other.address(), address, "address")
	p.must("topic", "create", "demo", "--data-dir", "other")

	for _, dir := range [][]string{nil, {"--data-dir", "seb-data"}} {
		for _, args := range [][]string{{"topic", "delete", "demo", "--yes"}, {"health"}, {"produce", "demo"}, {"consume", "demo"}} {
			p.refused(1, "no broker runs with data directory seb-data: another one answers at "+address+"; start one with `seb serve --data-dir seb-data`", append(args, dir...)...)
		}
	}
	check.Equalf(t, p.must("consume", "demo", "--data-dir", "other"), "", "records of the other broker")
	p.must("health", "--address", address)
	check.Containsf(t, p.must("doctor", "--bucket", "./first", "--kafka-listen", "", "--http-port", port), "a broker answers, but not the one of data directory seb-data", "seb doctor")
	foreign := p.must("doctor", "--bucket", "./first", "--kafka-listen", kafka, "--http-port", port)
	check.Containsf(t, foreign, "warn  Kafka address "+kafka+" is in use\n", "seb doctor")
	check.Containsf(t, p.must("doctor", "--bucket", "./second", "--data-dir", "other", "--kafka-listen", "", "--http-port", port), address[len("http://"):]+": a broker answers\n", "seb doctor")

	other.term()
	p.serve("--bucket", "./first", "--kafka-listen", "", "--http-port", port)
	p.must("health")
	check.Equalf(t, p.must("consume", "demo", "--data-dir", "seb-data"), "1\n", "after a restart")
}
