package triggers

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rule"
)

func TestAFiringIsRecordedOnce(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("week", "signup THEN (NOT use WITHIN 7 days)", nil))
	s.b.post(ev("ann", "signup"))
	s.b.post(ev("bob", "signup"))
	s.b.advance(24 * time.Hour)
	s.b.post(ev("bob", "use"))
	s.settle()
	same(t, s.fires(), []string{})
	s.b.advance(6*24*time.Hour + time.Second)
	s.settle()
	same(t, s.fires(), []string{"week ann +604800000 pending"})
	s.settle()
	_ = rule.Once
}
