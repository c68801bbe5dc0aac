package interop

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// sqsBroker is the SQS API at an address that stays, and a pair for it.
type sqsBroker struct {
	url  string
	pair client.SigningPair
	fail func() // kills a broker and starts it again
}

// env is the environment of a client.
func (b *sqsBroker) env() []string {
	return []string{
		"ENDPOINT=" + b.url, "AWS_ACCESS_KEY_ID=" + b.pair.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + b.pair.SecretAccessKey,
		"AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1",
	}
}

// serveSQS starts a broker with the SQS API.
func serveSQS(t *testing.T) *sqsBroker {
	b := startSQS(t, secretsKey(t))
	return &sqsBroker{url: b.HTTP(), pair: sqsPair(t, sqsAdmin(t, b, nil)), fail: func() { b.Restart(300 * time.Millisecond) }}
}

// secretsKey makes a secrets key, without which there are no pairs.
func secretsKey(t *testing.T) string {
	key := filepath.Join(t.TempDir(), "secrets-key")
	must.Get(testenv.Command(t.Context(), ".", testenv.Program(t), "secrets", "init", key))(t)
	return key
}

// startSQS starts a broker whose HTTP address stays.
func startSQS(t *testing.T, key string, args ...string) *testenv.InteropBroker {
	port := strconv.Itoa(testenv.PortForTest(t))
	return testenv.ServeInterop(t, append([]string{"--secrets-key-file", key, "--http-port", port}, args...)...)
}

// sqsPair makes a token with all rights and returns its pair.
func sqsPair(t *testing.T, c *client.Client) client.SigningPair {
	all := []string{"*"}
	must.Get(c.CreateToken(t.Context(), client.TokenSpec{ID: "sqs", Scopes: client.Scopes{Read: all, Write: all, Admin: all, Groups: all}}))(t)
	return must.Get(c.SigningPair(t.Context(), "sqs"))(t)
}

func sqsAdmin(t *testing.T, b *testenv.InteropBroker, trust *tls.Config) *client.Client {
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey, TLS: trust}))(t)
	t.Cleanup(c.Close)
	return c
}

// sqsFleet is two brokers on one bucket behind a load balancer. One of them leads.
type sqsFleet struct {
	*sqsBroker
	t        *testing.T
	brokers  [2]*testenv.InteropBroker
	clients  [2]*client.Client
	trust    *tls.Config
	forwards int // by the standbys of each leader that was killed
}

// serveSQSFleet starts two brokers. front starts the load balancer for their addresses, and returns its URL.
func serveSQSFleet(t *testing.T, front func(addresses []string) string, trust *tls.Config, args ...string) *sqsFleet {
	f := &sqsFleet{t: t, trust: trust}
	key, bucket := secretsKey(t), filepath.Join(t.TempDir(), "bucket")
	var addresses []string
	for i := range f.brokers {
		f.brokers[i] = startSQS(t, key, append(args, "--bucket", bucket)...)
		f.clients[i] = sqsAdmin(t, f.brokers[i], trust)
		_, address, _ := strings.Cut(f.brokers[i].HTTP(), "://")
		addresses = append(addresses, address)
	}
	f.sqsBroker = &sqsBroker{url: front(addresses), pair: sqsPair(t, f.clients[0]), fail: f.killLeader}
	return f
}

// killLeader kills the leader, waits until the other broker leads, and starts the first one again.
func (f *sqsFleet) killLeader() {
	leader := 0
	if f.role(1) == "leader" {
		leader = 1
	}
	standby := 1 - leader
	f.forwards += f.forwardsOf(standby)
	f.brokers[leader].Kill()
	sebtest.Eventually(f.t, "the standby leads", func() bool { return f.role(standby) == "leader" })
	f.brokers[leader].Start()
	sebtest.Eventually(f.t, "the broker that was killed follows", func() bool { return f.role(leader) == "follower" })
}

func (f *sqsFleet) role(i int) string { return must.Get(f.clients[i].Status(f.t.Context()))(f.t).Role }

var forwardsPattern = regexp.MustCompile(`(?m)^seb_http_forwards_total\{code="ok"\} (\d+)`)

// forwardsOf is the number of requests that a broker has forwarded to the leader since its start.
func (f *sqsFleet) forwardsOf(i int) int {
	req := must.Get(http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.brokers[i].HTTP()+"/metrics", http.NoBody))(f.t)
	req.Header.Set("Authorization", "Bearer "+testenv.InteropKey)
	c := http.Client{Transport: &http.Transport{TLSClientConfig: f.trust, DisableKeepAlives: true}}
	resp := must.Get(c.Do(req))(f.t)
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(f.t)
	n := 0
	if m := forwardsPattern.FindSubmatch(text); m != nil {
		n = must.Get(strconv.Atoi(string(m[1])))(f.t)
	}
	return n
}

// checkForwards checks that standbys have forwarded requests.
func (f *sqsFleet) checkForwards() {
	n := f.forwards + f.forwardsOf(0) + f.forwardsOf(1)
	if n == 0 {
		f.t.Error("no standby has forwarded a request")
	}
	f.t.Logf("standbys have forwarded %d requests", n)
}

// balance gives connections in turn to addresses that accept them. It returns its own URL.
func balance(t *testing.T, to []string) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for first := 0; ; first++ {
			down, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer down.Close()
				for i := range to {
					up, err := net.Dial("tcp", to[(first+i)%len(to)])
					if err != nil {
						continue
					}
					defer up.Close()
					relay(down, up)
					return
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// relay passes bytes in both directions until one side ends.
func relay(a, b net.Conn) {
	var sides sync.WaitGroup
	for _, side := range [][2]net.Conn{{a, b}, {b, a}} {
		sides.Go(func() {
			_, _ = io.Copy(side[0], side[1]) // a broker is killed
			_, _ = a.Close(), b.Close()
		})
	}
	sides.Wait()
}
