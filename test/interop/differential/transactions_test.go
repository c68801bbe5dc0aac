package differential

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	sequencesFlag = flag.Int("sequences", 60, "how many seeds of transactions to run")
	selfFlag      = flag.Bool("self", false, "compare the transactions of two Kafkas, which tests the comparison")
)

// sequenceSteps is the number of steps of a seed of transactions.
const sequenceSteps = 45

// TestTransactions sends the requests of transactional producers of both versions of transactions, most
// of them sensible, and reads with both isolations. At the end of a seed it reads all partitions.
func TestTransactions(t *testing.T) {
	testenv.InteropWanted(t)
	k := kafkaFor(t)
	one := oneSeed
	if *selfFlag {
		other := must.Get(startKafka(t.Context(), t.TempDir()))(t)
		defer func() { check.NoError(t, other.stop()) }()
		one = func(_ *testing.T, k *peer, seed uint64, steps func(*run) error) (*run, error) {
			r := must.Get(newRun(seed, nonceNow(), k.address, other.address))(t)
			defer r.close()
			return r, steps(r)
		}
	}
	first, n := *firstFlag, *sequencesFlag
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	began, compared := time.Now(), 0
	wanted, codes := map[string]int{}, map[string]int{}
	for seed := first; seed < first+uint64(n); seed++ {
		r, err := one(t, k, seed, func(r *run) error {
			r.codes = codes
			return r.transact(sequenceSteps)
		})
		compared += r.compared
		for name, times := range r.wanted {
			wanted[name] += times
		}
		if err != nil {
			t.Errorf("%v\nrepeat it with -run TestTransactions -args -seed=%d", err, seed)
			if !*keepGoing {
				break
			}
		}
	}
	for _, w := range allWanted() {
		if wanted[w.what] > 0 {
			t.Logf("%6d times: %s", wanted[w.what], w.what)
		}
	}
	var lines []string
	for what, times := range codes {
		lines = append(lines, fmt.Sprintf("%s: %d times", what, times))
	}
	slices.Sort(lines)
	t.Logf("codes of Kafka:\n  %s", strings.Join(lines, "\n  "))
	testenv.Report("Kafka "+kafkaVersion, fmt.Sprintf("the same answers as Seb's to %d sequences of transactions, %s requests", n, testenv.Thousands(compared)), time.Since(began))
}

// transact runs n steps of transactions, and those that end and read them.
func (r *run) transact(n int) error {
	for _, s := range r.sides() {
		if err := errors.Join(s.ready(), s.coordinates()); err != nil {
			return err
		}
	}
	x := newTransactions(r.gen)
	for len(r.gen.topics) < 2 {
		if err := r.step(r.gen.createPlain()); err != nil {
			return r.failed(err)
		}
	}
	for r.number = 1; r.number <= n || len(x.queue) > 0; r.number++ {
		if len(r.gen.topics) < 2 { // a wanted difference left other data, and was deleted
			return nil
		}
		if err := r.step(x.next()); err != nil {
			return r.failed(err)
		}
	}
	for _, st := range x.last() {
		r.number++
		if err := r.step(st); err != nil {
			return r.failed(err)
		}
	}
	return nil
}

// coordinates waits until a broker coordinates transactions, which Kafka starts at the first request.
func (s *side) coordinates() error {
	c, err := s.client(watcher)
	if err != nil {
		return err
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorType = "anybody", 1
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = text("anybody"), transactionTimeout
	return eventually(s.name+" coordinates transactions", func() error {
		found, ok := c.ask(find, 2).resp.(*kmsg.FindCoordinatorResponse)
		id, ok2 := c.ask(begin, 2).resp.(*kmsg.InitProducerIDResponse)
		if !ok || !ok2 || found.ErrorCode != 0 || id.ErrorCode != 0 {
			return fmt.Errorf("%+v %+v", found, id)
		}
		return nil
	})
}

// Codes after which clients send a request again: Kafka ends transactions after it has answered.
var retriable = []string{"14", "15", "16", "51"}

// settled calls do until the answer is none of those after which clients send the request again, and
// waits until the transaction that it may have ended has ended.
func (s *side) settled(st *step, do func() outcome) outcome {
	if st.awaits {
		if err := s.concluded(st.transactional, "Ongoing", "Prepare"); err != nil {
			return outcome{err: err}
		}
	}
	o := do()
	if st.transactional == "" {
		return o
	}
	for began := time.Now(); o.resp != nil && time.Since(began) < lagTime; o = do() {
		f := flatten(s, o.resp, "")
		if !slices.ContainsFunc(retriable, func(code string) bool { return someCode(f, code) }) {
			break
		}
		time.Sleep(againWait)
	}
	if err := s.concluded(st.transactional, "Prepare"); err != nil {
		return outcome{err: err}
	}
	return o
}

// concluded waits until the state of a transactional ID begins with none of some texts.
func (s *side) concluded(id string, not ...string) error {
	c, err := s.client(watcher)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	for began := time.Now(); time.Since(began) < lagTime; time.Sleep(againWait) {
		resp, ok := c.ask(req, 0).resp.(*kmsg.DescribeTransactionsResponse)
		if !ok || len(resp.TransactionStates) != 1 {
			return errors.New(s.name + " does not describe the transaction of " + id)
		}
		if !slices.ContainsFunc(not, func(state string) bool { return strings.HasPrefix(resp.TransactionStates[0].State, state) }) {
			return nil
		}
	}
	return fmt.Errorf("%s: the transaction of %s stays %q", s.name, id, not)
}

// watcher is the connection on which the comparison itself asks.
const watcher = 11
