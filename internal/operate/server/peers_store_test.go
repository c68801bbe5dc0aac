package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// crewOnS3 returns brokers whose bucket is on an S3 server of the test.
func crewOnS3(t *testing.T) (*crew, *testenv.S3Server) {
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
	remote := testenv.S3ForTest(t)
	return &crew{t, remote.Spec("crew")}, remote
}

// TestAStandbyWhoseStoreDoesNotAnswer: its clients read all records, because the leader answers. Kafka
// clients with the root key log in.
func TestAStandbyWhoseStoreDoesNotAnswer(t *testing.T) {
	c, remote := crewOnS3(t)
	a := c.start()
	store := must.Get(faultproxy.NewStore(remote.Endpoint, 1))(t)
	t.Cleanup(store.Close)
	b := c.start(func(s *config.Config) { s.Bucket, s.Kafka.Listen = store.Spec("crew"), "127.0.0.1:0" })
	t.Cleanup(func() { store.SetConfig(faultproxy.StoreConfig{}) }) // before the brokers stop
	c.up(1, a, b)
	c.write(a, "one")
	c.reads(b, "one")

	store.SetConfig(faultproxy.StoreConfig{Rates: faultproxy.Rates{faultproxy.Hung: 1}})
	c.write(a, "two")
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, path := range []string{"/records?topic-name=t&offset=1", "/records?topic-name=t&offset=earliest", "/record?topic-name=t&offset=1"} {
		sebtest.Eventually(t, "GET "+path, func() bool { // later if the standby does not hear the leader for a moment
			status, answer := ask(t, b, http.MethodGet, path, "")
			if status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Errorf("GET %s: %d %s", path, status, answer)
			}
			return strings.Contains(answer, "two")
		})
	}
	check.Containsf(t, eventsOf(t, b, "two"), "one", "event stream")
	sebtest.Eventually(t, "the leader knows that the store does not answer its standby", func() bool {
		m := a.Cluster().Members()[1]
		return m.HasBeat && !m.Beat.StoreOK
	})
	k := must.Get(kgo.NewClient(kgo.SeedBrokers(b.KafkaAddress()), kgo.SASL(plain.Auth{User: "any", Pass: b.APIKey()}.AsMechanism())))(t)
	defer k.Close()
	sebtest.Eventually(t, "a Kafka client logs in", func() bool { return k.Ping(t.Context()) == nil })

	store.SetConfig(faultproxy.StoreConfig{})
	sebtest.Eventually(t, "the store answers again", func() bool { return b.Node().StoreFault() == nil })
	c.reads(b, "one", "two")
}

// eventsOf returns an event stream from the start up to an event, or an error.
func eventsOf(t *testing.T, s *server.Server, until string) string {
	ctx, cancel := context.WithTimeout(t.Context(), sebtest.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/records?topic-name=t&offset=0", http.NoBody)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+s.APIKey())
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var all strings.Builder
	part := make([]byte, 1024)
	for err == nil && !strings.Contains(all.String(), until) {
		var n int
		n, err = resp.Body.Read(part)
		all.Write(part[:n])
	}
	if err != nil {
		return fmt.Sprintf("%d %s: %v", resp.StatusCode, all.String(), err)
	}
	return all.String()
}

// TestReadersAtAStandbyCauseNoRequests: a standby that hears its leader does not look for new records.
func TestReadersAtAStandbyCauseNoRequests(t *testing.T) {
	c, remote := crewOnS3(t)
	a := c.start()
	proxy := must.Get(testenv.NewS3Proxy(remote.Endpoint))(t)
	t.Cleanup(proxy.Close)
	b := c.start(func(s *config.Config) { s.Bucket = proxy.Spec("crew") })
	c.up(1, a, b)
	c.write(a, "one")
	c.reads(b, "one")
	got := make(chan string, 1)
	go func() { got <- eventsOf(t, b, "two") }()
	sebtest.Eventually(t, "two seconds without a request", func() bool {
		before := proxy.Counts()
		time.Sleep(2 * time.Second)
		return proxy.Counts().Sub(before).Total() == 0
	})
	c.write(a, "two")
	check.Containsf(t, <-got, "two", "event stream")
}
