package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/client"
)

const (
	// forwardMost is the CPU time of a write through a standby, relative to one at the leader.
	forwardMost = 1.3
	// forwardLater is the latency that a standby adds, in microseconds.
	forwardLater = 1000
)

// forwardConnections are the numbers of connections, and of requests of a turn.
var forwardConnections = []struct{ connections, requests int }{{1, 10_000}, {16, 40_000}}

// forward compares writes of one record through a standby, through a bare reverse proxy of net/http,
// and at the leader. The CPU time is that of both brokers and the proxy, because a standby follows the
// log in any case. It calls done after each turn.
func (p *place) forward(ctx context.Context, connections, requests, n int, done func()) (list []Check, err error) {
	err = p.within(func(tmpfs, _ string) error {
		leader, err := p.peer(tmpfs, "leader", "")
		if err != nil {
			return err
		}
		defer leader.Kill()
		standby, err := p.peer(tmpfs, "standby", leader.key)
		if err != nil {
			return err
		}
		defer standby.Kill()
		if _, err := standby.client.PutTopic(ctx, singleTopic, client.TopicSpec{Partitions: 1}); err != nil {
			return err
		}
		list, err = compareForwards(leader, standby, connections, max(connections, requests), n, done)
		return err
	})
	return list, err
}

// peer starts a broker that others reach, with their key if it is not the first.
func (p *place) peer(dir, name, key string) (*broker, error) {
	data := filepath.Join(dir, name)
	if key != "" {
		if err := os.Mkdir(data, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(data, "api-key"), []byte(key+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	return p.serve("file:"+filepath.Join(dir, "bucket"), data, "--advertise", "127.0.0.1", "--kafka-listen", "", "--batch-wait-time", "0")
}

func compareForwards(leader, standby *broker, connections, requests, n int, done func()) ([]Check, error) {
	at := func(b *broker) string {
		u, err := url.Parse(b.url)
		if err != nil {
			panic(err) // it was read by the client
		}
		return u.Host
	}
	proxy, address, err := startBare(at(leader))
	if err != nil {
		return nil, err
	}
	defer proxy.Kill()
	pids := []int{leader.Pid(), standby.Pid(), proxy.Pid()}
	var cpus, latencies [3][]float64
	var ratios, later, bare []float64
	for range n {
		for i, to := range []string{at(leader), at(standby), address} {
			cpu, latency, err := (&singleServer{pids, to, leader.key}).load(connections, requests)
			if err != nil {
				return nil, err
			}
			cpus[i], latencies[i] = append(cpus[i], cpu), append(latencies[i], latency)
			done()
		}
		last := len(cpus[0]) - 1
		ratios, bare = append(ratios, cpus[1][last]/cpus[0][last]), append(bare, cpus[2][last]/cpus[0][last])
		later = append(later, latencies[1][last]-latencies[0][last])
	}
	ratio, more := report.SpreadOf(ratios), report.SpreadOf(later)
	checks := []Check{{
		fmt.Sprintf("CPU of a write through a standby, %d connections", connections), fmt.Sprintf("≤ %.2f of one at the leader", forwardMost),
		fmt.Sprintf("%s: %s µs, at the leader %s µs; through a bare reverse proxy %s", ratio.Format("%.2f"), report.SpreadOf(cpus[1]).Format("%.0f"),
			report.SpreadOf(cpus[0]).Format("%.0f"), report.SpreadOf(bare).Format("%.2f")),
		ratio.Middle <= forwardMost,
	}}
	if connections == 1 { // with more the latency is that of the machine's cores
		checks = append(checks, Check{
			"latency that a standby adds to a write", fmt.Sprintf("≤ %d µs", forwardLater), more.Format("%.0f") + " µs", more.Middle <= forwardLater,
		})
	}
	return checks, nil
}
