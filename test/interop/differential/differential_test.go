package differential

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the one seed to run")
	seedsFlag = flag.Int("seeds", 30, "how many seeds to run")
	firstFlag = flag.Uint64("first", 1, "the first seed")
	stepsFlag = flag.Int("steps", 250, "how many requests a seed has")
	peerFlag  = flag.String("kafka", "", "the address of a Kafka that runs, with the user and password of the tests")
	keepGoing = flag.Bool("all", false, "continue after a failed seed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := testenv.Main(m)
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// TestDifferential: Kafka and Seb answer the same requests equally, except for the differences in
// the table.
func TestDifferential(t *testing.T) {
	versions, served := differential(t, *seedsFlag, (*run).steps, "the same answers as Seb's")
	met, all := coverage(t, versions, served)
	t.Logf("%d of %d versions of %d keys", met, all, len(versions))
}

// TestRights: Kafka and Seb have the same rules, which change while a user to whom they apply sends
// most requests. The answers are equal except for the differences in the table.
func TestRights(t *testing.T) {
	differential(t, (*seedsFlag+1)/2, func(r *run, n int) error {
		if err := r.prepare(); err != nil {
			return err
		}
		if err := r.limit(); err != nil {
			return r.failed(err)
		}
		return r.steps(n)
	}, "the same answers as Seb's to a user with rules that change")
}

// differential runs n seeds, or the one of a flag.
func differential(t *testing.T, n int, steps func(r *run, n int) error, what string) (versions map[kmsg.Key][2]int16, served map[[2]int16]int) {
	t.Helper()
	testenv.InteropWanted(t)
	k := kafkaFor(t)
	first := *firstFlag
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	began, compared, leaders := time.Now(), 0, 0
	wanted := map[string]int{}
	served = map[[2]int16]int{}
	for seed := first; seed < first+uint64(n); seed++ {
		r, err := oneSeed(t, k, seed, func(r *run) error { return steps(r, *stepsFlag) })
		if r != nil {
			compared += r.compared
			if r.otherLeader {
				leaders++
			}
			versions = r.versions
			for at, times := range r.served {
				served[at] += times
			}
			for name, times := range r.wanted {
				wanted[name] += times
			}
		}
		if err != nil {
			t.Errorf("%v\nrepeat it with -args -seed=%d", err, seed)
			if !*keepGoing {
				break
			}
		}
	}
	if leaders > max(1, n/5) {
		t.Errorf("%d of %d runs ended with %v", leaders, n, errOtherLeader)
	}
	for _, w := range allWanted() {
		t.Logf("%6d times: %s", wanted[w.what], w.what)
	}
	testenv.Report("Kafka "+kafkaVersion, what+", "+testenv.Thousands(compared)+" requests", time.Since(began))
	return versions, served
}

// unasked are keys that the comparison omits: folders and their sizes differ, every connection
// authenticates, and TestTransactions and TestConsumerProtocol cover the rest.
var unasked = append([]kmsg.Key{kmsg.DescribeLogDirs, kmsg.SASLAuthenticate, kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe}, ofTransactions...)

// ofTransactions are the keys that are about the transaction of a producer.
var ofTransactions = []kmsg.Key{
	kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.WriteTxnMarkers, kmsg.TxnOffsetCommit, kmsg.DescribeProducers, kmsg.DescribeTransactions,
}

// coverage returns how many versions of keys were compared, out of all that both brokers support. A
// key without any is an error after enough requests.
func coverage(t *testing.T, versions map[kmsg.Key][2]int16, served map[[2]int16]int) (met, all int) {
	t.Helper()
	for key, v := range versions {
		of := 0
		for n := v[0]; n <= v[1]; n++ {
			all++
			if times := served[[2]int16{int16(key), n}]; times > 0 {
				met++
				of += times
			}
		}
		if of == 0 && !slices.Contains(unasked, key) && *seedsFlag >= 10 && *seedFlag == 0 {
			t.Errorf("%s was never compared", key.Name())
		}
	}
	return met, all
}

// shared is the Kafka of all tests of a process.
var shared struct {
	once sync.Once
	dir  string
	peer *peer
	err  error
}

func kafkaFor(t *testing.T) *peer {
	t.Helper()
	shared.once.Do(func() {
		if *peerFlag != "" {
			shared.peer = &peer{address: *peerFlag}
			return
		}
		if shared.dir, shared.err = os.MkdirTemp("", "seb-differential-*"); shared.err == nil {
			shared.peer, shared.err = startKafka(t.Context(), shared.dir)
		}
	})
	must.NoError(t, shared.err)
	return shared.peer
}

// stopShared stops Kafka and removes its data.
func stopShared() error {
	var err error
	if shared.peer != nil && shared.peer.command != nil {
		err = shared.peer.stop()
	}
	if shared.dir != "" {
		err = errors.Join(err, os.RemoveAll(shared.dir))
	}
	return err
}

// oneSeed runs the steps of a seed on a new Seb.
func oneSeed(t *testing.T, k *peer, seed uint64, steps func(*run) error) (*run, error) {
	t.Helper()
	ctx := context.Background()
	s := must.Get(startSeb(ctx))(t)
	defer func() { check.NoError(t, s.stop(ctx)) }()
	r := must.Get(newRun(seed, nonceNow(), k.address, s.address))(t)
	defer r.close()
	return r, steps(r)
}

// TestAlteredAnswersAreFound tests the comparison: it changes one field of Seb's answers to one
// key, and the run must fail with that field.
func TestAlteredAnswersAreFound(t *testing.T) {
	testenv.InteropWanted(t)
	k := kafkaFor(t)
	for path, alter := range map[string]func(resp kmsg.Response){
		"BaseOffset": func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.ProduceResponse); ok {
				r.Topics[0].Partitions[0].BaseOffset++
			}
		},
		"RecordBatches[": func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.FetchResponse); ok && len(r.Topics) > 0 {
				if b := r.Topics[0].Partitions[0].RecordBatches; len(b) > batchHead {
					b[len(b)-1] ^= 1
				}
			}
		},
		"NumPartitions": func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.CreateTopicsResponse); ok && r.Topics[0].ErrorCode == 0 {
				r.Topics[0].NumPartitions++
			}
		},
		"ErrorCode": func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.HeartbeatResponse); ok {
				r.ErrorCode++
			}
		},
		"Offset": func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.OffsetFetchResponse); ok {
				for i := range r.Topics {
					r.Topics[i].Partitions[0].Offset++
				}
			}
		},
		"MemberID": func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.JoinGroupResponse); ok && r.MemberID != "" {
				r.MemberID += "x"
			}
		},
	} {
		const most = 600
		r, err := oneSeed(t, k, 1, func(r *run) error {
			r.alter = alter
			return r.steps(most)
		})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("altered %s, but the run ended with: %v", path, err)
			continue
		}
		t.Logf("%s: found by step %d", path, r.number)
	}
}
