package cost

import (
	"encoding/json"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

// File is the name of the file in the data folder.
const File = "costs.json"

// accountsMax bounds the buckets in the file; the oldest are removed first.
const accountsMax = 64

// account has the requests of a bucket in a month.
type account struct {
	Store   string    `json:"store"` // bucket, prefix and endpoint
	Cluster string    `json:"cluster"`
	Month   time.Time `json:"month"` // its begin
	// Commits are the commit objects since CommitsSince and before the position.
	Commits      int64     `json:"commits"`
	CommitsSince time.Time `json:"commits_since"`
	Epoch        uint32    `json:"epoch"`
	Nonce        string    `json:"nonce"` // of the epoch
	Slot         uint64    `json:"slot"`
	// Hour is the commit objects of the hour before HourAt, the time of the newest change of Commits.
	// Without a budget both are zero.
	Hour   int64     `json:"hour,omitempty"`
	HourAt time.Time `json:"hour_at,omitzero"`
	// Others are the other requests of the brokers with this data folder since OthersSince.
	Others      requests  `json:"others"`
	OthersSince time.Time `json:"others_since"`
}

func (a *account) position() state.Position { return state.Position{Epoch: a.Epoch, Slot: a.Slot} }

// requests are other requests than PUTs of commit objects.
type requests struct {
	Put    int64 `json:"put"`
	List   int64 `json:"list"`
	Get    int64 `json:"get"`
	Delete int64 `json:"delete"`
}

// othersOf returns requests without the PUTs of commits. A PUT counts as another request until its
// commit is known.
func othersOf(r objstore.Requests, commits int64) requests {
	return requests{Put: r.Put - commits, List: r.List, Get: r.Get, Delete: r.Delete}
}

func (r requests) sub(b requests) requests {
	return requests{r.Put - b.Put, r.List - b.List, r.Get - b.Get, r.Delete - b.Delete}
}

func (r requests) add(b requests) requests {
	return requests{r.Put + b.Put, r.List + b.List, r.Get + b.Get, r.Delete + b.Delete}
}

// puts returns the requests that a budget counts, in PUTs.
func (a *account) puts(p *Prices) float64 {
	n := float64(max(0, a.Commits) + max(0, a.Others.Put))
	if p.Put > 0 {
		n += float64(max(0, a.Others.List)) * p.List / p.Put
	}
	return n
}

// parseAccounts reads a file. An unreadable one counts as lost.
func parseAccounts(b []byte) []account {
	var all []account
	if json.Unmarshal(b, &all) != nil {
		return nil
	}
	return all
}

// encodeAccounts returns the file with the account in the place of that of its store.
func encodeAccounts(others []account, a *account) []byte {
	all := append(others[max(0, len(others)+1-accountsMax):len(others):len(others)], *a)
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		panic("cost: encode accounts: " + err.Error()) // no value of an account can fail
	}
	return append(b, '\n')
}
