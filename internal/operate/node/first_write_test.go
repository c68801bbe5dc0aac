package node

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// priced is a store whose requests have a price.
type priced struct{ objstore.Store }

func (priced) Requests() objstore.Requests { return objstore.Requests{} }

// TestFirstRecordsDoNotWait: the budget of a broker that makes the log begins when it leads, so that its
// first records do not have the fixed wait until the next count.
func TestFirstRecordsDoNotWait(t *testing.T) {
	defer func(was time.Duration) { costEvery = was }(costEvery)
	costEvery = time.Hour
	n := must.Get(Open(t.Context(), Options{Store: priced{objstore.NewMemory()}, DataDir: t.TempDir(), NoMerge: true, Follow: true}))(t)
	defer func() { must.NoError(t, n.Close(t.Context())) }()
	n.Cost().Sample() // without a log there is no position yet
	must.NoError(t, n.Stand(t.Context()))
	sebtest.Eventually(t, "objects leave at once", func() bool { return n.limiter.Figures().Interval == 0 })
}
