package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestConnectExactlyOnce runs a worker with exactly.once.source.support that copies a file's lines into a
// topic, while the worker is killed and the broker is killed. Each line is committed once, in order.
func TestConnectExactlyOnce(t *testing.T) {
	testenv.InteropWanted(t)
	begin := time.Now()
	b := testenv.ServeInterop(t)
	createTopic(t, b, "lines", 1)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	rest := "http://" + l.Addr().String()
	must.NoError(t, l.Close())
	file, lines := filepath.Join(b.Dir, "lines"), 0
	properties := `group.id=connect
config.storage.topic=connect-configs
config.storage.replication.factor=1
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
exactly.once.source.support=enabled
listeners=` + rest + "\n" + clientOf(b, "") + clientOf(b, "producer.") + clientOf(b, "admin.") + clientOf(b, "consumer.")
	worker := func() *java { return connect(t, "org.apache.kafka.connect.cli.ConnectDistributed", properties) }
	f := &franz{t: t, b: b, versions: kversion.Stable()}
	c := f.client(kgo.ConsumeTopics("lines"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	read := 0
	more := func(n int, fail func()) {
		t.Helper()
		var text strings.Builder
		for range n {
			fmt.Fprintln(&text, lines)
			lines++
		}
		out := must.Get(os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
		must.Get(out.WriteString(text.String()))(t)
		must.NoError(t, out.Close())
		fail()
		ctx, stop := context.WithTimeout(t.Context(), callMax)
		defer stop()
		for read < lines {
			fetched := c.PollFetches(ctx)
			must.NoErrorf(t, ctx.Err(), "%d of %d lines are committed", read, lines)
			fetched.EachRecord(func(r *kgo.Record) {
				check.Equalf(t, string(r.Value), strconv.Itoa(read), "the line at %d", r.Offset)
				read++
			})
		}
	}
	w := worker()
	addLines(t, rest, file)
	const kills = 4
	more(1000, func() {})
	for n := range kills {
		more(2000, func() {
			sebtest.Eventually(t, "some lines", func() bool {
				c.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
					check.Equalf(t, string(r.Value), strconv.Itoa(read), "the line at %d", r.Offset)
					read++
				})
				return read > lines-1900
			})
			if n%2 == 1 {
				b.Restart(time.Second)
				return
			}
			w.Kill()
			w = worker()
		})
	}
	testenv.Report("Connect", fmt.Sprintf("%d lines of a file, each committed once; %d kills of the worker or the broker", lines, kills), time.Since(begin))
}

// addLines starts the connector of a file.
func addLines(t *testing.T, rest, file string) {
	t.Helper()
	sebtest.Eventually(t, "the connector", func() bool {
		body := fmt.Sprintf(`{"name": "lines", "config": {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": %q, "topic": "lines",
			"exactly.once.support": "required", "transaction.boundary": "poll"}}`, file)
		r, err := http.Post(rest+"/connectors", "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode == http.StatusCreated || r.StatusCode == http.StatusConflict
	})
}
