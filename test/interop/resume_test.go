package interop

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestResumedTransactions does what the exactly-once sink of Flink does: a process writes a transaction
// and dies, the broker is killed, and another process commits it with the ID and the epoch of the
// producer, with the client of Flink's connector and with a newer one. A commit is repeated after a
// second restart.
func TestResumedTransactions(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	f := &franz{t: t, b: b, versions: kversion.Stable()}
	for _, version := range []string{"3.9.1", JavaVersion} {
		t.Run(version, func(t *testing.T) {
			begin := time.Now()
			lib := must.Get(JavaClients(t.Context(), version))(t)
			dir, topic := t.TempDir(), "resume-"+version
			must.NoError(t, compile(t, lib, dir, "resume"))
			createTopic(t, b, topic, 1)
			run := func(args ...string) string {
				p := start(t, dir+string(filepath.ListSeparator)+lib, nil, "Resume", append([]string{args[0], settings(t, b), topic}, args[1:]...)...)
				p.wait(callMax)
				lines := strings.Split(p.Log(), "\n")
				return lines[len(lines)-1]
			}
			id, epoch, found := strings.Cut(run("begin", topic), " ")
			must.Equal(t, found, true)
			for range 2 {
				b.Restart(0)
				check.Equalf(t, run("commit", id, epoch), "committed", "the commit")
			}
			must.NoError(t, send(t, f.client(), topic, "end"))
			var want []string
			for n := range 10 {
				want = append(want, "n"+strconv.Itoa(n))
			}
			f.expect(topic, kgo.ReadCommitted(), want...)
			testenv.Report("Java "+version, "a transaction of a process that died is committed by another, as by Flink's sink; the broker was killed", time.Since(begin))
		})
	}
}
