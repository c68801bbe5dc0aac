package journalsim_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/journalsim"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this one seed with a trace")
	fromFlag  = flag.Uint64("from", 1, "first seed")
	seedsFlag = flag.Int("seeds", 0, "number of seeds (0: few)")
	timeFlag  = flag.Duration("simtime", 0, "run fresh seeds for so long instead")
)

// progressEvery is how often a campaign prints what it has done, and the seed at which it is.
const progressEvery = 10 * time.Second

// A run allocates much and keeps little: memory is available, time is not.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestSeeds runs processes that are stopped and killed, power failures, errors and flipped bits.
func TestSeeds(t *testing.T) {
	total := seeds(t, "seeds", journalsim.Draw, sebtest.Runs(100, 20))
	if total.Runs < 100 || t.Failed() {
		return
	}
	for what, n := range map[string]int{
		"names put by the journal and by files": min(total.Acks-total.Late, total.Late), "names that were taken": total.Exists,
		"deletes": total.Deletes, "stops": total.Pauses, "kills": total.Kills, "power failures": total.PowerFailures, "puts alone": total.Solos,
		"failed syncs": total.SyncErrors, "failed syncs of folders": total.FolderErrors, "failed reads": total.ReadErrors, "full disks": total.Full,
		"flipped bits": total.Flips, "truncated files": total.Truncates,
	} {
		if n == 0 {
			t.Errorf("the runs had no %s", what)
		}
	}
}

// TestImages checks every image that a power failure can leave after each change of the disk: all
// subsets of the sectors and names that are not synced.
func TestImages(t *testing.T) {
	sebtest.Long(t, "TestSeeds and TestSeedsThatFailed remain")
	total := seeds(t, "images", journalsim.DrawImages, sebtest.Runs(2, 1))
	if !t.Failed() && total.Images < 10*total.Runs && *seedFlag == 0 {
		t.Errorf("%d images in %d runs", total.Images, total.Runs)
	}
}

// TestSeedsThatFailed runs seeds that fail without the fix of a bug that the simulator has found.
func TestSeedsThatFailed(t *testing.T) {
	for name, seed := range map[string]uint64{
		"an owner whose flush failed lists without the batch that others show":                         50,
		"an owner lists without the batch that is durable and not decided":                             247,
		"a power failure keeps the removal of a large object and loses its tombstone":                  52,
		"a process that knew a name before it was deleted says that it exists":                         210,
		"an owner does not see late names before it knows its end":                                     14,
		"a delete drops a name that was put after its tombstones were written":                         489,
		"an owner deletes while its last batch is not indexed, and the file goes with it":              486,
		"an owner that has named its end and still ends its journal reads its memory as a reader":      2934,
		"an owner whose file is removed while it is left acknowledges a batch that it has not written": 516,
		"a power failure keeps a mark and loses the claim, and the claim is called damaged":            5440,
		"a claim is damaged, and its folder looks empty":                                               16,
		"a batch in the middle is damaged, and a reader stops there":                                   14,
		"the last readable object of a file is deleted, and the file goes with a damaged one":          30,
		"a batch is completed while a reader looks behind it, and is called damaged":                   3,
		"a reader syncs before the owner has written the whole batch, and shows it":                    7201,
	} {
		t.Run(name, func(t *testing.T) {
			if res := journalsim.Run(t, journalsim.Draw(seed), nil); res.Err != nil {
				t.Errorf("seed %d: %v", seed, res.Err)
			}
		})
	}
}

// TestSameSeed: a seed determines every step, whatever the order in which goroutines run that one
// step has woken.
func TestSameSeed(t *testing.T) {
	seeds := []uint64{5, 116, 163, 172} // some of those in which the order mattered
	for seed := uint64(1); seed <= uint64(sebtest.Runs(10, 3)); seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		late := journalsim.Draw(seed)
		late.Disturb = func() {
			for range rand.IntN(2) * rand.IntN(20) {
				runtime.Gosched()
			}
		}
		one, two := journalsim.Run(t, journalsim.Draw(seed), nil), journalsim.Run(t, late, nil)
		if one.Hash != two.Hash || one.Stats != two.Stats {
			t.Errorf("seed %d: two runs differ:\n%+v\n%+v", seed, one.Stats, two.Stats)
		}
	}
}

// seeds runs the seeds that the flags select, or the first few.
func seeds(t *testing.T, mode string, draw func(uint64) journalsim.Config, few int) (total journalsim.Stats) {
	if *seedFlag != 0 {
		res := journalsim.Run(t, draw(*seedFlag), os.Stdout)
		t.Logf("config: %+v", res.Config)
		t.Logf("%+v hash %016x", res.Stats, res.Hash)
		must.NoError(t, res.Err)
		return res.Stats
	}
	first, n := *fromFlag, *seedsFlag
	if n == 0 {
		n = few
	}
	if *timeFlag > 0 {
		first, n = uint64(time.Now().UnixNano()), 1<<40
	}
	begun, shown := time.Now(), time.Now()
	for seed := first; seed < first+uint64(n); seed++ {
		if *timeFlag > 0 && time.Since(begun) > *timeFlag {
			break
		}
		if time.Since(shown) > progressEvery {
			shown = time.Now()
			t.Logf("%d runs, %d steps, %d acknowledgements, %d images; next seed %d", total.Runs, total.Steps, total.Acks, total.Images, seed)
		}
		res := journalsim.Run(t, draw(seed), nil)
		total.Add(res.Stats)
		if res.Err != nil {
			t.Errorf("seed %d: %v\n  config: %+v\n  repeat: go run ./test/cmd/journal -mode %s -seed %d", seed, res.Err, res.Config, mode, seed)
		}
	}
	t.Logf("%+v", total)
	return total
}
