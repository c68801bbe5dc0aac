package delivery

import (
	"net/http"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/test/check"
)

// send sends messages with all of the limit in flight to a receiver that works at a number of them at
// once, and returns the largest limit.
func (p *pace) send(messages, atOnce int) (most int) {
	for range messages {
		p.started(p.limit)
		p.ended(p.round, webhook.Outcome{Kind: webhook.Delivered, Status: http.StatusOK, Took: 100 * time.Millisecond * time.Duration(max(atOnce, p.limit)) / time.Duration(atOnce)})
		most = max(most, p.limit)
	}
	return most
}

func TestPace(t *testing.T) {
	p := newPace()
	check.Equalf(t, p.limit, 4, "first limit")
	for range 1000 { // one at a time
		p.started(1)
		p.ended(p.round, webhook.Outcome{Kind: webhook.Delivered})
	}
	check.Equalf(t, p.limit, 4, "limit of a trigger with few messages")

	p = newPace()
	p.send(200, 1000)
	check.Equalf(t, p.limit, 32, "limit with a receiver that does not become slower")
	round := p.round
	p.ended(round, webhook.Outcome{Kind: webhook.Retry, Status: http.StatusUnprocessableEntity})
	check.Equalf(t, p.limit, 32, "limit after an answer about the message")
	for _, o := range []webhook.Outcome{{Status: http.StatusTooManyRequests}, {Status: http.StatusBadGateway}, {}} {
		before := p.limit
		o.Kind = webhook.Retry
		p.ended(p.round, o)
		check.Equalf(t, p.limit, before/2, "limit after status %d", o.Status)
		p.ended(round, o)
		check.Equalf(t, p.limit, before/2, "limit after the answer to an earlier message")
	}

	for range 5 {
		p.ended(p.round, webhook.Outcome{Kind: webhook.Retry})
	}
	check.Equalf(t, p.limit, 1, "limit of a receiver that does not answer")
	p.send(1+2+3, 1000)
	check.Equalf(t, p.limit, 4, "limit after the first answers")

	for _, atOnce := range []int{1, 6, 10, 20} {
		p = newPace()
		most := p.send(5000, atOnce)
		if most > max(7, 2*atOnce) || p.limit < min(4, atOnce) {
			t.Errorf("a receiver of %d at once: a limit of %d, at most %d", atOnce, p.limit, most)
		}
	}

	p = newPace()
	p.send(200, 1000)
	p.send(2000, 2) // slower for good
	p.send(2000, 1000)
	check.Equalf(t, p.limit, 32, "limit with a receiver that was slower for a time")
}
