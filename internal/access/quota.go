package access

import (
	"errors"
	"fmt"
)

const (
	// QuotasMax bounds the quotas of a Table.
	QuotasMax = 10_000
	// RateMax bounds each limit of a quota, per second: 1 TiB.
	RateMax = 1 << 40
)

// Quota limits the bytes and requests of a principal per second on one broker. A limit of 0 is no
// limit; a stored quota has at least one limit.
type Quota struct {
	// Principal is an ID, which need not exist, or Any: each principal without a quota of its own.
	Principal    string
	ProduceBytes uint64
	FetchBytes   uint64
	Requests     uint64
}

// Limits reports whether the quota has a limit.
func (q *Quota) Limits() bool { return q.ProduceBytes != 0 || q.FetchBytes != 0 || q.Requests != 0 }

// ErrNoLimit: a quota without a limit cannot be stored.
var ErrNoLimit = errors.New("want at least one limit")

// Check returns why the quota cannot be stored, or nil.
func (q *Quota) Check() error {
	switch {
	case q.Principal != Any && !ValidID(q.Principal):
		return fmt.Errorf("principal %.80q: want an ID of 1 to %d characters, or *; the root key has no quota", q.Principal, IDMax)
	case !q.Limits():
		return ErrNoLimit
	case max(q.ProduceBytes, q.FetchBytes, q.Requests) > RateMax:
		return fmt.Errorf("limit %d per second: the highest is %d", max(q.ProduceBytes, q.FetchBytes, q.Requests), uint64(RateMax))
	}
	return nil
}
